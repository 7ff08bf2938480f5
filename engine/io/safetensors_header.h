// The header of a safetensors file: a u64 length, that many bytes of JSON, then the data. Nothing in it is
// trusted. After parsing, every tensor lies inside the file and has exactly the bytes that its shape and
// dtype need, and the tensors cover the data exactly, without holes, overlaps or bytes after the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

namespace recollect {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the format's own limit
inline constexpr std::size_t kMaxSafetensorsRank = 8;

struct TensorEntry {
  std::string name;
  std::string dtype_name;  // as the file spells it: "F32", "BF16", "I8", ...
  std::optional<DType>
      dtype;  // empty if it cannot be used in computation: an error only when this tensor is read
  std::vector<int64_t> shape;  // row-major; empty for a scalar
  uint64_t offset = 0;         // of the first byte, from the start of the file
  uint64_t bytes = 0;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;             // in file order
  std::vector<uint32_t> by_name;                // indices into entries, sorted by name
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Both functions use `path` to name the file in errors, which are kInput with the tensor's name and the byte
// offset. Memory is never allocated in proportion to a number in the file, only to bytes that the file has.
//
// Returns the size of the header of a file of `file_bytes`. `begin` holds the file's first bytes: at least
// eight, if it has them.
uint64_t safetensors_header_bytes(std::string_view begin, uint64_t file_bytes, const std::string& path);
// `begin` must contain at least the whole header.
SafetensorsHeader parse_safetensors_header(std::string_view begin, uint64_t file_bytes,
                                           const std::string& path);

// Returns "F32" and so on, for the dtypes that can be used in computation.
std::string_view safetensors_name_of(DType dtype);
// "[2, 3]"
std::string shape_to_string(std::span<const int64_t> shape);

}  // namespace recollect
