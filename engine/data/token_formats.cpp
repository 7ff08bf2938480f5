#include "engine/data/token_formats.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "engine/core/error.h"

namespace recollect {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read in place");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr int32_t kLlmcEvaluationMagic = 20240522;

struct TypeName {
  TokenType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<TypeName, 5> kTypes = {{{TokenType::kU8, "uint8", 1},
                                             {TokenType::kU16, "uint16", 2},
                                             {TokenType::kU32, "uint32", 4},
                                             {TokenType::kI32, "int32", 4},
                                             {TokenType::kI64, "int64", 8}}};

[[noreturn]] void input_error(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kInput, what, std::move(hint));
}

// The caller has made sure that the value lies inside.
template <typename T>
T load(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool begins_with(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

void check_size(const std::string& path, uint64_t header, uint64_t count, TokenType type, uint64_t actual) {
  uint64_t expected = 0;
  const bool overflow = __builtin_mul_overflow(count, size_of(type), &expected) ||
                        __builtin_add_overflow(expected, header, &expected);
  if (overflow)
    input_error(fmt::format("{}: its header states {} tokens, which no file can hold", path, count));
  if (expected != actual)
    input_error(fmt::format("{}: {}: its header asks for {} bytes ({} tokens), the file has {}", path,
                            actual < expected ? "truncated" : "too long", expected, count, actual));
}

// The header of a .npy file: a Python dictionary literal with exactly three keys.
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::string_view descr;
  bool fortran_order = false;
  uint64_t count = 1;
  int dims = 0;

  void parse() {
    int keys = 0;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = parse_string();
      const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (keys & bit) != 0) fail();
      keys |= bit;
      expect(':');
      if (bit == 1) descr = parse_string();
      if (bit == 2) fortran_order = parse_bool();
      if (bit == 4) parse_shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (keys != 7 || at_ != text_.size()) fail();
  }

 private:
  [[noreturn]] void fail() const {
    input_error(fmt::format("{}: the .npy header is not understood near byte {}", path_, at_ + 10),
                "save a plain array: numpy.save(path, array_of_uint16)");
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  std::string_view parse_string() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail();
    const std::string_view value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  bool parse_bool() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail();
  }
  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      uint64_t dim = 0;
      skip_space();
      const std::size_t first = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(dim, uint64_t{10}, &dim) ||
            __builtin_add_overflow(dim, static_cast<uint64_t>(text_[at_] - '0'), &dim))
          fail();
      if (at_ == first || __builtin_mul_overflow(count, dim, &count)) fail();
      ++dims;
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::optional<TokenType> npy_type(std::string_view descr) {
  if (descr == "|u1") return TokenType::kU8;
  if (descr == "<u2") return TokenType::kU16;
  if (descr == "<u4") return TokenType::kU32;
  if (descr == "<i4") return TokenType::kI32;
  if (descr == "<i8") return TokenType::kI64;
  return std::nullopt;
}

std::optional<TokenType> megatron_type(uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kU8;
    case kMegatronI32:
      return TokenType::kI32;
    case 5:
      return TokenType::kI64;
    case kMegatronU16:
      return TokenType::kU16;
    default:
      return std::nullopt;  // 2 int8, 3 int16, 6 and 7 floating: no token ids
  }
}

}  // namespace

std::size_t size_of(TokenType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }
std::string_view name_of(TokenType type) { return kTypes[static_cast<std::size_t>(type)].name; }

std::optional<TokenType> token_type_of(std::string_view name) {
  for (const TypeName& known : kTypes)
    if (known.name == name) return known.type;
  return std::nullopt;
}

bool is_npy(Bytes begin) { return begins_with(begin, kNpyMagic); }

TokenLayout parse_npy(Bytes begin, uint64_t file_bytes, const std::string& path) {
  if (file_bytes < 12) input_error(fmt::format("{}: truncated: {} bytes of a .npy header", path, file_bytes));
  const auto major = load<uint8_t>(begin, 6);
  if (major < 1 || major > 3) input_error(fmt::format("{}: .npy version {} is unknown", path, major));
  const uint64_t text = major == 1 ? 10 : 12;
  const uint64_t length = major == 1 ? load<uint16_t>(begin, 8) : load<uint32_t>(begin, 8);
  if (length > file_bytes - text)
    input_error(
        fmt::format("{}: truncated: a .npy header of {} bytes in a file of {}", path, length, file_bytes));
  if (length > begin.size() - text)
    input_error(fmt::format("{}: a .npy header of {} bytes is no plain array's", path, length));
  NpyHeader header({reinterpret_cast<const char*>(begin.data()) + text, length}, path);
  header.parse();
  const std::optional<TokenType> type = npy_type(header.descr);
  if (!type)
    input_error(fmt::format("{}: elements of type '{}' are no token ids", path, header.descr),
                "save little-endian uint16, uint32, int32 or int64");
  if (header.fortran_order || header.dims < 1 || header.dims > 2)
    input_error(fmt::format("{}: an array of {} dims{}", path, header.dims,
                            header.fortran_order ? " in Fortran order" : ""),
                "save one or two dims in C order");
  check_size(path, text + length, header.count, *type, file_bytes);
  return {*type, text + length, header.count};
}

bool is_llmc(Bytes begin) {
  if (begin.size() < 8) return false;
  const auto magic = load<int32_t>(begin, 0);
  return magic == kLlmcGpt2Magic || magic == kLlmcLlama3Magic || magic == kLlmcEvaluationMagic;
}

TokenLayout parse_llmc(Bytes begin, uint64_t file_bytes, const std::string& path) {
  const auto magic = load<int32_t>(begin, 0), version = load<int32_t>(begin, 4);
  if (magic == kLlmcEvaluationMagic)
    input_error(fmt::format("{}: an llm.c multiple-choice evaluation file", path), "it cannot be trained on");
  const bool llama = magic == kLlmcLlama3Magic;
  if (version != (llama ? kLlmcLlama3Version : kLlmcGpt2Version))
    input_error(fmt::format("{}: version {} of an llm.c file with magic {}", path, version, magic),
                "known are 20240520 with version 1 and 20240801 with version 7");
  if (file_bytes < kLlmcHeaderBytes)
    input_error(fmt::format("{}: truncated: {} of the {} bytes of an llm.c header", path, file_bytes,
                            kLlmcHeaderBytes));
  const auto count = load<int32_t>(begin, 8);
  if (count < 0) input_error(fmt::format("{}: its header states {} tokens", path, count));
  const TokenType type = llama ? TokenType::kU32 : TokenType::kU16;
  check_size(path, kLlmcHeaderBytes, static_cast<uint64_t>(count), type, file_bytes);
  return {type, kLlmcHeaderBytes, static_cast<uint64_t>(count)};
}

bool is_megatron_index(Bytes index) { return begins_with(index, kMegatronMagic); }

TokenLayout parse_megatron_index(Bytes index, const std::string& index_path, uint64_t data_bytes,
                                 const std::string& data_path) {
  constexpr uint64_t kHeaderBytes = kMegatronHeaderBytes;
  if (index.size() < kHeaderBytes)
    input_error(
        fmt::format("{}: truncated: {} bytes of a {}-byte header", index_path, index.size(), kHeaderBytes));
  const auto version = load<uint64_t>(index, 9);
  if (version != 1) input_error(fmt::format("{}: version {} is unknown", index_path, version));
  const auto code = load<uint8_t>(index, 17);
  const std::optional<TokenType> type = megatron_type(code);
  if (!type) input_error(fmt::format("{}: elements of type code {} are no token ids", index_path, code));

  const auto sequences = load<uint64_t>(index, 18), documents = load<uint64_t>(index, 26);
  // Neither count can exceed the file's bytes, which keeps the products far from overflow.
  const bool plausible = sequences <= index.size() && documents <= index.size();
  const uint64_t expected = plausible ? kHeaderBytes + sequences * (4 + 8) + documents * 8 : UINT64_MAX;
  const bool with_modes = plausible && index.size() == expected + sequences;
  if (index.size() != expected && !with_modes)
    input_error(
        fmt::format("{}: its header asks for {} bytes ({} sequences, {} document marks), the file has {}",
                    index_path, expected, sequences, documents, index.size()));

  const uint64_t pointers = kHeaderBytes + sequences * 4, marks = pointers + sequences * 8;
  uint64_t count = 0;  // an index of a terabyte still cannot make it overflow: 2^37 lengths below 2^31
  for (uint64_t i = 0; i < sequences; ++i) {
    const auto length = load<int32_t>(index, kHeaderBytes + i * 4);
    const auto pointer = load<uint64_t>(index, pointers + i * 8);
    if (length < 0 || pointer != count * size_of(*type))
      input_error(
          fmt::format("{}: sequence {} ({} tokens at byte {}) does not follow the one before it, which ends "
                      "at byte {}",
                      index_path, i, length, pointer, count * size_of(*type)));
    count += static_cast<uint64_t>(length);
  }
  for (uint64_t i = 0, previous = 0; i < documents; ++i) {
    const auto mark = load<uint64_t>(index, marks + i * 8);
    if (mark < previous || mark > sequences)
      input_error(
          fmt::format("{}: document mark {} is {}, with {} sequences", index_path, i, mark, sequences));
    previous = mark;
  }
  check_size(data_path, 0, count, *type, data_bytes);
  return {*type, 0, count};
}

TokenLayout headerless_layout(uint64_t file_bytes, TokenType type, const std::string& path) {
  if (file_bytes % size_of(type) != 0)
    input_error(fmt::format("{}: truncated: {} bytes are no whole number of {} tokens", path, file_bytes,
                            name_of(type)),
                "or data.dtype is wrong");
  return {type, 0, file_bytes / size_of(type)};
}

}  // namespace recollect
