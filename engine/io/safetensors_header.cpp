#include "engine/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <unordered_set>

#include "engine/core/error.h"
#include "engine/io/file_kind.h"
#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

struct KnownDType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

// The dtypes that the format defines have a size to check. An unknown dtype is only checked against the
// bounds of the file.
constexpr std::array<KnownDType, 20> kKnownDTypes = {{
    {"F64", 64, DType::kF64},     {"F32", 32, DType::kF32},     {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},     {"I64", 64, DType::kI64},     {"I32", 32, DType::kI32},
    {"U16", 16, DType::kU16},     {"U8", 8, DType::kU8},        {"BOOL", 8, std::nullopt},
    {"I8", 8, DType::kI8},        {"I16", 16, std::nullopt},    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt},
}};

const KnownDType* find_dtype(std::string_view name) {
  const auto* found = std::find_if(kKnownDTypes.begin(), kKnownDTypes.end(),
                                   [&](const KnownDType& known) { return known.name == name; });
  return found == kKnownDTypes.end() ? nullptr : found;
}

// Iterates over the header's bytes and tells the handler how far the parser has come.
class CountingIterator {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, const char** progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *progress_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** progress_;
};

// Accepts exactly {"__metadata__": {string: string}, NAME: {"dtype": string, "shape": [...], "data_offsets":
// [b, e]}}. Any other event is an error, so depth is bounded by construction. Offsets stay relative to the
// data here.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const std::string& path, std::string_view header, uint64_t data_bytes)
      : path_(path), begin_(header.data()), progress_(header.data()), data_bytes_(data_bytes) {}

  const char** progress() { return &progress_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (where_ == Where::kOutside) {
      where_ = Where::kRoot;
    } else if (where_ == Where::kRoot && name_ == "__metadata__") {
      if (has_metadata_) fail("\"__metadata__\" appears twice");
      has_metadata_ = true;
      where_ = Where::kMetadata;
    } else if (where_ == Where::kRoot) {
      if (!names_.insert(name_).second)
        throw Error(
            ExitCode::kInput,
            fmt::format("{}: tensor {} appears twice: its header has the key a second time (near byte {})",
                        path_, escaped_name(name_), 8 + (progress_ - begin_)),
            "save the file anew: each tensor has one name, and each name one tensor");
      header_.entries.emplace_back().name = name_;
      fields_seen_ = 0;
      offsets_count_ = 0;
      where_ = Where::kTensor;
    } else {
      fail("an object where none belongs");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (where_ == Where::kRoot) {
      name_ = key;
    } else if (where_ == Where::kMetadata) {
      metadata_key_ = key;
      if (header_.metadata.contains(key)) fail(fmt::format("the key {} appears twice", escaped_name(key)));
    } else {
      field_ = key == "dtype"          ? kDTypeField
               : key == "shape"        ? kShapeField
               : key == "data_offsets" ? kOffsetsField
                                       : 0;
      if (field_ == 0) fail(fmt::format("unknown key {}", escaped_name(key)));
      if (fields_seen_ & field_) fail(fmt::format("the key {} appears twice", escaped_name(key)));
      fields_seen_ |= field_;
    }
    return true;
  }

  bool string(string_t& value) override {
    if (where_ == Where::kMetadata)
      header_.metadata.emplace(metadata_key_, value);
    else if (where_ == Where::kTensor && field_ == kDTypeField)
      header_.entries.back().dtype_name = value;
    else
      fail("a string where none belongs");
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::kTensor && field_ == kShapeField)
      where_ = Where::kShape;
    else if (where_ == Where::kTensor && field_ == kOffsetsField)
      where_ = Where::kOffsets;
    else
      fail("an array where none belongs");
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::kShape) {
      auto& shape = header_.entries.back().shape;
      if (shape.size() == kMaxSafetensorsRank) fail(fmt::format("more than {} dims", kMaxSafetensorsRank));
      if (value > static_cast<uint64_t>(INT64_MAX)) fail(fmt::format("the dim {} is too large", value));
      shape.push_back(static_cast<int64_t>(value));
    } else if (where_ == Where::kOffsets) {
      if (offsets_count_ == 2) fail("data_offsets has more than two numbers");
      offsets_[offsets_count_++] = value;
    } else {
      fail("a number where none belongs");
    }
    return true;
  }

  bool end_array() override {
    if (where_ == Where::kOffsets && offsets_count_ != 2) fail("data_offsets needs two numbers");
    where_ = Where::kTensor;
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTensor) finish_tensor();
    where_ = where_ == Where::kRoot ? Where::kOutside : Where::kRoot;
    return true;
  }

  bool number_integer(number_integer_t value) override {
    fail(fmt::format("the number {} where only 0 and above belongs", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    fail(fmt::format("the number {} is not an integer that fits 64 bits", escaped_name(text)));
  }
  bool null() override { fail("null where it does not belong"); }
  bool boolean(bool) override { fail("a boolean where none belongs"); }
  bool binary(binary_t&) override { fail("binary data where none belongs"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    fail("the header is not valid JSON in UTF-8");
  }

  [[noreturn]] void fail(const std::string& what) const {
    const bool in_tensor = where_ == Where::kTensor || where_ == Where::kShape || where_ == Where::kOffsets;
    const std::string tensor = in_tensor ? fmt::format(" tensor {}:", escaped_name(name_)) : "";
    throw Error(ExitCode::kInput,
                fmt::format("{}:{} {} (near byte {})", path_, tensor, what, 8 + (progress_ - begin_)),
                "the file is damaged or is not safetensors");
  }

 private:
  enum class Where { kOutside, kRoot, kMetadata, kTensor, kShape, kOffsets };
  static constexpr int kDTypeField = 1, kShapeField = 2, kOffsetsField = 4;

  void finish_tensor() {
    if (fields_seen_ != (kDTypeField | kShapeField | kOffsetsField))
      fail("needs dtype, shape and data_offsets");
    TensorEntry& entry = header_.entries.back();
    const auto [begin, end] = offsets_;
    if (begin > end || end > data_bytes_)
      fail(fmt::format("data_offsets [{}, {}] do not lie in the file's {} bytes of data", begin, end,
                       data_bytes_));
    entry.offset = begin;
    entry.bytes = end - begin;
    int64_t elements = 1;
    bool overflow = false;
    for (int64_t dim : entry.shape) overflow |= __builtin_mul_overflow(elements, dim, &elements);
    if (const KnownDType* known = find_dtype(entry.dtype_name)) {
      entry.dtype = known->dtype;
      uint64_t bits = 0;
      overflow |= __builtin_mul_overflow(static_cast<uint64_t>(elements), known->bits, &bits);
      if (!overflow && (bits % 8 != 0 || bits / 8 != entry.bytes))
        fail(fmt::format("{} {} needs {} bytes but data_offsets give {}", entry.dtype_name,
                         shape_to_string(entry.shape), bits / 8 + (bits % 8 != 0), entry.bytes));
    }
    if (overflow) fail(fmt::format("the size of shape {} overflows", shape_to_string(entry.shape)));
  }

  const std::string& path_;
  const char* begin_;
  const char* progress_;
  uint64_t data_bytes_;
  SafetensorsHeader header_;
  Where where_ = Where::kOutside;
  std::string name_, metadata_key_;
  std::unordered_set<std::string> names_;
  int field_ = 0, fields_seen_ = 0;
  bool has_metadata_ = false;
  std::array<uint64_t, 2> offsets_{};
  int offsets_count_ = 0;
};

uint64_t header_length(std::string_view begin, uint64_t file_bytes, const std::string& path) {
  if (file_bytes < 8)
    throw Error(ExitCode::kInput,
                fmt::format("{}: {} bytes are too few for a safetensors file", path, file_bytes));
  uint64_t length = 0;
  std::memcpy(&length, begin.data(), sizeof(length));
  const std::optional<FileKind> kind = kind_of_file(begin, /*sure=*/true);
  if (kind && kind->what.find("zip") == std::string_view::npos)
    throw Error(ExitCode::kInput, fmt::format("{} {}, and no weights of safetensors", path, kind->what),
                std::string(kind->hint));
  if (length > kMaxSafetensorsHeader && looks_like_pickle(std::as_bytes(std::span(begin))))
    refuse_pickle(path);
  if (length > kMaxSafetensorsHeader)
    throw Error(ExitCode::kInput,
                fmt::format("{}: header length {} at byte 0 exceeds the format's limit of {}", path, length,
                            kMaxSafetensorsHeader),
                "the file is damaged or is not safetensors");
  if (length > file_bytes - 8)
    throw Error(ExitCode::kInput,
                fmt::format("{}: truncated: header length {} at byte 0, but only {} bytes follow", path,
                            length, file_bytes - 8));
  return length;
}

// Checks that the tensors cover the data exactly, sorts the entries in file order, and makes their offsets
// absolute.
void check_cover(SafetensorsHeader& header, uint64_t data_begin, uint64_t data_bytes,
                 const std::string& path) {
  auto& entries = header.entries;
  std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  for (TensorEntry& entry : entries) {
    if (entry.offset != end)
      throw Error(ExitCode::kInput,
                  fmt::format("{}: tensor {} begins at data byte {}, {} the end of the one before it at {}",
                              path, escaped_name(entry.name), entry.offset,
                              entry.offset < end ? "overlapping" : "after a hole behind", end));
    end += entry.bytes;
    entry.offset += data_begin;
  }
  if (end != data_bytes)
    throw Error(ExitCode::kInput,
                fmt::format("{}: the tensors end at data byte {} but the file has {} bytes of data", path,
                            end, data_bytes));
}

// Sorts the entries by name. The parser has made sure that no two names are equal.
void index_names(SafetensorsHeader& header) {
  const auto& entries = header.entries;
  auto& by_name = header.by_name;
  by_name.resize(entries.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(),
            [&](uint32_t a, uint32_t b) { return entries[a].name < entries[b].name; });
}

}  // namespace

uint64_t safetensors_header_bytes(std::string_view begin, uint64_t file_bytes, const std::string& path) {
  return 8 + header_length(begin, file_bytes, path);
}

SafetensorsHeader parse_safetensors_header(std::string_view begin, uint64_t file_bytes,
                                           const std::string& path) {
  const uint64_t data_begin = safetensors_header_bytes(begin, file_bytes, path);
  require(begin.size() >= data_begin, "the whole header of a safetensors file");
  const std::string_view text = begin.substr(8, data_begin - 8);
  const uint64_t data_bytes = file_bytes - data_begin;
  HeaderHandler handler(path, text, data_bytes);
  if (text.empty() || text.front() != '{') handler.fail("the header does not begin with '{'");
  // The parser takes a zero byte for the end of its input and would ignore everything after it.
  if (text.find('\0') != std::string_view::npos) handler.fail("the header holds a zero byte");
  nlohmann::json::sax_parse(CountingIterator(text.data(), handler.progress()),
                            CountingIterator(text.data() + text.size(), handler.progress()), &handler);
  SafetensorsHeader header = handler.take();
  check_cover(header, data_begin, data_bytes, path);
  index_names(header);
  return header;
}

std::string_view safetensors_name_of(DType dtype) {
  for (const KnownDType& known : kKnownDTypes)
    if (known.dtype == dtype) return known.name;
  throw Error(ExitCode::kInternal, "a dtype without a safetensors name");
}

std::string shape_to_string(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace recollect
