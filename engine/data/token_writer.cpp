#include "engine/data/token_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "engine/core/error.h"

namespace recollect {
namespace {

constexpr uint64_t kMaxU16Ids = uint64_t{UINT16_MAX} + 1;
constexpr uint64_t kMegatronMaxU16Ids = 65500;  // where Megatron itself changes over

std::string with_extension(const std::string& path, const char* extension) {
  const bool part = path.ends_with(".bin") || path.ends_with(".idx");
  return (part ? path.substr(0, path.size() - 4) : path) + extension;
}

TokenType type_for(const TokenFileSpec& spec) {
  if (spec.format != "llm.c" && spec.format != "headerless" && spec.format != "megatron")
    throw Error(ExitCode::kConfiguration, fmt::format("unknown format \"{}\"", spec.format),
                "it is one of llm.c, headerless, megatron");
  if (spec.vocabulary_size > INT32_MAX)
    throw Error(ExitCode::kConfiguration, fmt::format("a vocabulary of {} ids", spec.vocabulary_size));
  if (!spec.type) {
    if (spec.format == "megatron")
      return spec.vocabulary_size < kMegatronMaxU16Ids ? TokenType::kU16 : TokenType::kI32;
    return spec.vocabulary_size <= kMaxU16Ids ? TokenType::kU16 : TokenType::kU32;
  }
  if (spec.format != "headerless")
    throw Error(ExitCode::kConfiguration, fmt::format("the type of a {} file is not to choose", spec.format),
                "it follows from the vocabulary and stands in the header");
  if (*spec.type != TokenType::kU16 && *spec.type != TokenType::kU32)
    throw Error(ExitCode::kConfiguration, fmt::format("{} tokens are not written", name_of(*spec.type)),
                "uint16 and uint32 are");
  if (*spec.type == TokenType::kU16 && spec.vocabulary_size > kMaxU16Ids)
    throw Error(ExitCode::kConfiguration,
                fmt::format("the {} ids of this vocabulary do not fit into uint16", spec.vocabulary_size),
                "choose uint32");
  return *spec.type;
}

// Readers, ours too, take NAME.bin for a Megatron file where there is a NAME.idx.
ReplacementFile open_data(const TokenFileSpec& spec) {
  if (spec.format == "megatron") return ReplacementFile(with_extension(spec.path, ".bin"));
  const std::string index = with_extension(spec.path, ".idx");
  std::error_code error;
  if (std::filesystem::exists(index, error))
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} is there, so that {} would be read as a Megatron file", index, spec.path),
                "remove it, or choose another name");
  return ReplacementFile(spec.path);
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

std::vector<std::string> files_written(const TokenFileSpec& spec) {
  if (spec.format != "megatron") return {spec.path};
  return {with_extension(spec.path, ".bin"), with_extension(spec.path, ".idx")};
}

TokenWriter::TokenWriter(const TokenFileSpec& spec)
    : format_(spec.format), type_(type_for(spec)), data_(open_data(spec)) {
  if (format_ == "megatron") index_.emplace(with_extension(spec.path, ".idx"));
}

void TokenWriter::append(std::span<const uint32_t> ids, std::span<const std::size_t> document_ends) {
  const uint64_t offset = (format_ == "llm.c" ? kLlmcHeaderBytes : 0) + tokens_ * size_of(type_);
  if (type_ == TokenType::kU16)
    data_.write_at(offset, bytes_of(std::vector<uint16_t>(ids.begin(), ids.end())));
  else
    data_.write_at(offset, std::as_bytes(ids));
  tokens_ += ids.size();
  std::size_t begin = 0;
  for (const std::size_t end : document_ends) {
    end_document(open_document_ + end - begin);
    open_document_ = 0;
    begin = end;
  }
  open_document_ += ids.size() - begin;
}

void TokenWriter::end_document(uint64_t tokens) {
  ++documents_;
  if (!index_) return;
  if (tokens > INT32_MAX)
    throw Error(ExitCode::kInput, fmt::format("document {} has {} tokens", documents_, tokens),
                "a Megatron index holds at most 2147483647 for each");
  lengths_.push_back(static_cast<int32_t>(tokens));
}

void TokenWriter::finish() {
  require(open_document_ == 0, "a token file ends within a document");
  if (format_ == "llm.c") {
    if (tokens_ > INT32_MAX)
      throw Error(ExitCode::kInput, fmt::format("{} tokens are more than an llm.c header can state", tokens_),
                  "write several files, or another format");
    std::vector<int32_t> header(kLlmcHeaderBytes / sizeof(int32_t));
    const bool narrow = type_ == TokenType::kU16;
    header[0] = narrow ? kLlmcGpt2Magic : kLlmcLlama3Magic;
    header[1] = narrow ? kLlmcGpt2Version : kLlmcLlama3Version;
    header[2] = static_cast<int32_t>(tokens_);
    data_.write_at(0, bytes_of(header));
  }
  if (index_) write_index();
  data_.commit();
  if (index_) index_->commit();
}

// Every document is one sequence.
void TokenWriter::write_index() {
  std::vector<int64_t> starts, marks{0};
  int64_t start = 0;
  for (const int32_t length : lengths_) {
    starts.push_back(start);
    start += length * static_cast<int64_t>(size_of(type_));
    marks.push_back(static_cast<int64_t>(marks.size()));
  }
  std::vector<std::byte> head(kMegatronHeaderBytes);
  const auto put = [&](std::size_t at, uint64_t value, std::size_t bytes) {
    std::memcpy(&head[at], &value, bytes);
  };
  std::memcpy(head.data(), kMegatronMagic.data(), kMegatronMagic.size());
  put(9, 1, 8);  // version
  put(17, type_ == TokenType::kU16 ? kMegatronU16 : kMegatronI32, 1);
  put(18, starts.size(), 8);
  put(26, marks.size(), 8);
  uint64_t offset = 0;
  for (const auto part : {bytes_of(head), bytes_of(lengths_), bytes_of(starts), bytes_of(marks)}) {
    index_->write_at(offset, part);
    offset += part.size();
  }
}

}  // namespace recollect
