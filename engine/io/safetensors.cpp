#include "engine/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "engine/core/error.h"
#include "engine/io/file_kind.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

SafetensorsHeader read_header(const InputFile& file) {
  constexpr uint64_t kFirst = kFileKindBytes;
  const uint64_t bytes = safetensors_header_bytes(file.text(kFirst), file.size(), file.path());
  return parse_safetensors_header(file.text(bytes), file.size(), file.path());
}

template <typename Source, typename T>
void read_converted(const InputFile& file, uint64_t offset, T* destination, std::size_t count) {
  if constexpr (std::is_same_v<Source, T>) {
    file.read_at(offset, std::as_writable_bytes(std::span(destination, count)));
  } else {
    std::array<Source, (64 << 10) / sizeof(Source)> part;
    for (std::size_t done = 0; done < count;) {
      const std::span<Source> some = std::span(part).first(std::min(part.size(), count - done));
      file.read_at(offset + done * sizeof(Source), std::as_writable_bytes(some));
      const Source* const from = some.data();
      const auto n = static_cast<std::ptrdiff_t>(some.size());
#pragma omp simd
      for (std::ptrdiff_t i = 0; i < n; ++i) destination[i] = static_cast<T>(from[i]);
      destination += n;
      done += some.size();
    }
  }
}

[[noreturn]] void refuse_dtype(const std::string& path, const TensorEntry& entry) {
  throw Error(ExitCode::kInput,
              fmt::format("{}: tensor {} at byte {} has dtype {}, which cannot be used here", path,
                          escaped_name(entry.name), entry.offset, escaped_name(entry.dtype_name)),
              "weights must be F64, F32, BF16 or F16");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path), header_(read_header(file_)) {}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto& by_name = header_.by_name;
  const auto found =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [this](uint32_t i, std::string_view n) { return header_.entries[i].name < n; });
  if (found == by_name.end() || header_.entries[*found].name != name) return nullptr;
  return &header_.entries[*found];
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr)
    throw Error(ExitCode::kInput, fmt::format("{}: there is no tensor {}", path(), escaped_name(name)));
  if (!entry->dtype) refuse_dtype(path(), *entry);
  return *entry;
}

template <typename T>
void SafetensorsFile::read_as(const TensorEntry& entry, T* destination, int64_t first_row,
                              int64_t rows) const {
  if (!entry.dtype || !is_floating(*entry.dtype)) refuse_dtype(path(), entry);
  const int64_t all_rows = entry.shape.empty() ? 1 : entry.shape[0];
  if (rows == kAllRows) rows = all_rows - first_row;
  require(first_row >= 0 && rows >= 0 && rows <= all_rows - first_row,
          fmt::format("rows [{}, {}) of {} {}", first_row, first_row + rows, entry.name,
                      shape_to_string(entry.shape)));
  if (rows == 0) return;
  const auto row_elements = static_cast<std::size_t>(entry.elements() / all_rows);
  const uint64_t offset =
      entry.offset + static_cast<std::size_t>(first_row) * row_elements * size_of(*entry.dtype);
  const std::size_t count = static_cast<std::size_t>(rows) * row_elements;
  switch (*entry.dtype) {
    case DType::kF64:
      return read_converted<double>(file_, offset, destination, count);
    case DType::kF32:
      return read_converted<float>(file_, offset, destination, count);
    case DType::kBF16:
      return read_converted<bf16>(file_, offset, destination, count);
    case DType::kF16:
      return read_converted<f16>(file_, offset, destination, count);
    default:
      refuse_dtype(path(), entry);
  }
}

void SafetensorsFile::read_bytes(const TensorEntry& entry, std::span<std::byte> to) const {
  require(to.size() == entry.bytes, "a tensor has another number of bytes");
  file_.read_at(entry.offset, to);
}

void SafetensorsFile::will_read(const TensorEntry& entry) const {
  if (entry.dtype)
    file_.will_read(entry.offset, static_cast<uint64_t>(entry.elements()) * size_of(*entry.dtype));
}

template void SafetensorsFile::read_as(const TensorEntry&, float*, int64_t, int64_t) const;
template void SafetensorsFile::read_as(const TensorEntry&, double*, int64_t, int64_t) const;

}  // namespace recollect
