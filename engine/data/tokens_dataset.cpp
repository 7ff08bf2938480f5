// Pre-tokenized binary files. Each file is one stream of tokens, cut into consecutive windows of one
// sequence; what is left at its end is dropped. Ids are checked on the way out of the file, whatever was
// checked before.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/data/formats.h"
#include "engine/data/token_formats.h"
#include "engine/io/file_kind.h"
#include "engine/io/input_file.h"

namespace recollect {
namespace {

constexpr uint64_t kCheckedAtStart = uint64_t{1} << 30;  // bytes of all files together

// Converts `ids.size()` tokens and says whether all are inside the vocabulary. Written to be vectorised: no
// branch.
template <typename T>
bool convert(const std::byte* source, std::span<int32_t> ids, uint64_t vocabulary_size) {
  bool outside = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    T token;
    std::memcpy(&token, source + i * sizeof(T), sizeof(T));
    outside |= static_cast<uint64_t>(token) >= vocabulary_size;  // a negative one becomes huge
    ids[i] = static_cast<int32_t>(token);
  }
  return !outside;
}

bool convert(TokenType type, const std::byte* source, std::span<int32_t> ids, uint64_t vocabulary_size) {
  switch (type) {
    case TokenType::kU8:
      return convert<uint8_t>(source, ids, vocabulary_size);
    case TokenType::kU16:
      return convert<uint16_t>(source, ids, vocabulary_size);
    case TokenType::kU32:
      return convert<uint32_t>(source, ids, vocabulary_size);
    case TokenType::kI32:
      return convert<int32_t>(source, ids, vocabulary_size);
    case TokenType::kI64:
      return convert<int64_t>(source, ids, vocabulary_size);
  }
  throw Error(ExitCode::kInternal, "unknown token type");
}

int64_t token_at(TokenType type, const std::byte* source) {
  int64_t value = 0;
  std::memcpy(&value, source, size_of(type));  // little-endian: the low bytes
  if (type == TokenType::kI32) return static_cast<int32_t>(value);
  return value;
}

class TokenFile {
 public:
  TokenFile(InputFile file, const TokenLayout& layout) : file_(std::move(file)), layout_(layout) {}

  const std::string& path() const { return file_.path(); }
  TokenType type() const { return layout_.type; }
  uint64_t count() const { return layout_.count; }
  uint64_t bytes() const { return layout_.count * size_of(layout_.type); }

  // Tokens [first, first + ids.size()). Errors: kInput, naming the byte of the first id outside the
  // vocabulary.
  void read(uint64_t first, std::span<int32_t> ids, int64_t vocabulary_size) const {
    const std::size_t width = size_of(layout_.type);
    alignas(int64_t) std::array<std::byte, kPart> part{};
    for (uint64_t offset = layout_.offset + first * width; !ids.empty();) {
      const std::size_t count = std::min(ids.size(), kPart / width);
      file_.read_at(offset, std::span(part).first(count * width));
      convert_part(offset, part.data(), ids.first(count), vocabulary_size);
      offset += count * width;
      ids = ids.subspan(count);
    }
  }

  void check_ids(int64_t vocabulary_size) const {
    std::vector<int32_t> ids(64 * 1024);
    for (uint64_t first = 0; first < layout_.count; first += ids.size()) {
      const std::size_t count = std::min<uint64_t>(ids.size(), layout_.count - first);
      read(first, std::span(ids).first(count), vocabulary_size);
    }
  }

 private:
  static constexpr std::size_t kPart = 16 << 10;  // bytes read at a time

  void convert_part(uint64_t offset, const std::byte* source, std::span<int32_t> ids,
                    int64_t vocabulary_size) const {
    if (convert(layout_.type, source, ids, static_cast<uint64_t>(vocabulary_size))) return;
    const std::size_t width = size_of(layout_.type);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int64_t token = token_at(layout_.type, source + i * width);
      if (token < 0 || token >= vocabulary_size)
        throw Error(ExitCode::kInput,
                    fmt::format("{}: the token {} at byte {} is outside the vocabulary of {}", path(), token,
                                offset + i * width, vocabulary_size),
                    "is this the tokenizer's vocabulary, and data.dtype the file's type?");
    }
  }

  InputFile file_;
  TokenLayout layout_;
};

// "corpus", "corpus.bin" and "corpus.idx" all name the pair corpus.bin and corpus.idx.
std::string with_extension(const std::string& path, const char* extension) {
  const bool part = path.ends_with(".bin") || path.ends_with(".idx");
  return (part ? path.substr(0, path.size() - 4) : path) + extension;
}

Bytes view_of(std::string_view text) { return std::as_bytes(std::span(text)); }

bool has_megatron_index(const std::string& path) {
  const std::string index = with_extension(path, ".idx");
  std::error_code error;
  if (!std::filesystem::is_regular_file(index, error)) return false;
  const std::string begin = InputFile(index).text(kMegatronHeaderBytes);
  if (begin.starts_with("TNTIDX")) {
    const FileKind kind = *kind_of_file(begin);
    throw Error(ExitCode::kInput, fmt::format("{} {}, and is not read", index, kind.what),
                std::string(kind.hint));
  }
  return is_megatron_index(view_of(begin));
}

TokenFile open_megatron(const std::string& path) {
  const InputFile index(with_extension(path, ".idx"));
  InputFile data(with_extension(path, ".bin"));
  const TokenLayout layout =
      parse_megatron_index(view_of(index.text()), index.path(), data.size(), data.path());
  return {std::move(data), layout};
}

TokenFile open_single(const std::string& path, std::optional<TokenType> hint) {
  InputFile file(path);
  const std::string text = file.text(kMostHeaderBytes);
  const Bytes begin = view_of(text);
  // Numbers without a header may begin with any two or three bytes.
  const std::optional<FileKind> kind = is_npy(begin) ? std::nullopt : kind_of_file(text, hint.has_value());
  if (kind)
    throw Error(ExitCode::kInput, fmt::format("{} {}, and no token file", path, kind->what),
                std::string(kind->hint));
  TokenLayout layout;
  if (is_npy(begin))
    layout = parse_npy(begin, file.size(), path);
  else if (is_llmc(begin))
    layout = parse_llmc(begin, file.size(), path);
  else if (hint)
    layout = headerless_layout(file.size(), *hint, path);
  else
    throw Error(ExitCode::kInput,
                fmt::format("{} has no header, so the width of its tokens is unknown", path),
                "set data.dtype; files made by nanoGPT are uint16");
  return {std::move(file), layout};
}

bool is_megatron_pair(const std::string& path) { return !path.ends_with(".npy") && has_megatron_index(path); }

TokenFile open_token_file(const std::string& path, std::optional<TokenType> hint) {
  const bool pair = is_megatron_pair(path);
  TokenFile file = pair ? open_megatron(path) : open_single(path, hint);
  if (hint && *hint != file.type())
    throw Error(ExitCode::kInput,
                fmt::format("{} holds {} tokens by its header, but data.dtype says {}", file.path(),
                            name_of(file.type()), name_of(*hint)),
                "leave data.dtype out: the header is enough");
  return file;
}

class TokensDataset : public Dataset {
 public:
  TokensDataset(const DatasetSpec& spec, std::vector<TokenFile> files)
      : length_(spec.sequence_length), vocabulary_size_(spec.vocabulary_size), files_(std::move(files)) {
    uint64_t bytes = 0;
    for (const TokenFile& file : files_) {
      first_sequence_.push_back(size_);
      const int64_t sequences = static_cast<int64_t>(file.count()) / length_;
      if (sequences == 0)
        throw Error(ExitCode::kInput, fmt::format("{} holds {} tokens, fewer than one sequence of {}",
                                                  file.path(), file.count(), length_));
      size_ += sequences;
      bytes += file.bytes();
    }
    if (bytes > kCheckedAtStart) return;
    for (const TokenFile& file : files_) file.check_ids(vocabulary_size_);
  }

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), index);
    const auto file = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
    const int64_t first = (index - first_sequence_[file]) * length_;
    std::vector<int32_t>& ids = sample["ids"];
    ids.resize(static_cast<std::size_t>(length_));
    files_[file].read(static_cast<uint64_t>(first), ids, vocabulary_size_);
  }

 private:
  int64_t length_;
  int64_t vocabulary_size_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> first_sequence_;  // of each file
  int64_t size_ = 0;
};

}  // namespace

std::vector<std::string> files_of_tokens(const std::string& path) {
  if (!is_megatron_pair(path)) return {path};
  return {with_extension(path, ".idx"), with_extension(path, ".bin")};
}

std::unique_ptr<Dataset> open_tokens_dataset(const DatasetSpec& spec, const std::vector<std::string>& files) {
  const std::optional<TokenType> hint = token_type_of(spec.dtype);
  if (!hint && spec.dtype != "auto")
    throw Error(ExitCode::kConfiguration, fmt::format("unknown data.dtype \"{}\"", spec.dtype),
                "it is one of auto, uint8, uint16, uint32, int32, int64");
  std::vector<TokenFile> opened;
  for (const std::string& path : files) opened.push_back(open_token_file(path, hint));
  return std::make_unique<TokensDataset>(spec, std::move(opened));
}

}  // namespace recollect
