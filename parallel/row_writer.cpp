#include "parallel/row_writer.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/core/error.h"
#include "parallel/in_parallel.h"

namespace recollect {

namespace {

constexpr int64_t kBlockElements = 1 << 16;
constexpr std::size_t kStagingBytes = std::size_t{32} << 20;

template <typename To, typename From>
void round_to(To* to, const From* from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(To) == 2)
      to[i] = To(static_cast<float>(from[i]));
    else
      to[i] = static_cast<To>(from[i]);
  }
}

template <typename From>
void round_to(DType dtype, std::byte* to, const From* from, int64_t count) {
  if constexpr (sizeof(From) == 1) {
    require(dtype == kDTypeOf<From>, "bytes are stored as bytes");
    std::copy_n(from, count, reinterpret_cast<From*>(to));
    return;
  }
  switch (dtype) {
    case DType::kF64:
      return round_to(reinterpret_cast<double*>(to), from, count);
    case DType::kF32:
      return round_to(reinterpret_cast<float*>(to), from, count);
    case DType::kBF16:
      return round_to(reinterpret_cast<bf16*>(to), from, count);
    case DType::kF16:
      return round_to(reinterpret_cast<f16*>(to), from, count);
    default:
      throw Error(ExitCode::kInternal, "a weight is not floating");
  }
}

}  // namespace

// A destination while some of its rows are written.
struct RowWriter::Target {
  DType dtype;
  int64_t first, end;  // rows
  std::byte* memory;   // of `first`
  std::size_t row_bytes;

  std::byte* at(int64_t row) const { return memory + static_cast<std::size_t>(row - first) * row_bytes; }
  bool has(int64_t begin, int64_t stop) const { return begin >= first && stop <= end; }
};

template <typename T>
void RowWriter::write_block(int64_t first, int64_t end, int64_t columns, std::span<const Target> targets,
                            T* numbers, const Fill<T>& fill) {
  const Target* direct = nullptr;
  bool is_wanted = false;
  for (const Target& target : targets) {
    is_wanted |= std::max(first, target.first) < std::min(end, target.end);
    if (target.dtype == kDTypeOf<T> && target.has(first, end)) direct = &target;
  }
  if (!is_wanted) return;
  T* const made = direct ? reinterpret_cast<T*>(direct->at(first)) : numbers;
  fill(first, end - first, made);
  for (const Target& target : targets) {
    const int64_t begin = std::max(first, target.first), stop = std::min(end, target.end);
    if (&target != direct && begin < stop)
      round_to(target.dtype, target.at(begin), made + (begin - first) * columns, (stop - begin) * columns);
  }
}

std::byte* RowWriter::staged(std::size_t bytes) {
  if (staging_.bytes() < bytes) {
    staging_ = Arena(0);
    staging_ = memory_.device().reserve(MemorySpace::kHost, std::max(bytes, kStagingBytes));
  }
  return staging_.at(0);
}

template <typename T>
void RowWriter::write(int64_t rows, int64_t columns, std::span<const Destination> to, const Fill<T>& fill) {
  const auto row_bytes = [&](const Destination& d) {
    return static_cast<std::size_t>(columns) * size_of(d.tensor.dtype);
  };
  std::vector<std::byte*> places;  // null: through the staging memory
  std::size_t staged_bytes = 0;    // of a row
  for (const Destination& d : to) {
    places.push_back(memory_.writable(d.tensor));
    if (!places.back()) staged_bytes += row_bytes(d) + kAlignment;
  }
  const int64_t together = std::clamp<int64_t>(kBlockElements / columns, 1, rows);
  const int64_t at_once =
      staged_bytes == 0 ? rows : std::max<int64_t>(1, static_cast<int64_t>(kStagingBytes / staged_bytes));
  const std::size_t block_bytes = aligned(static_cast<std::size_t>(together * columns) * sizeof(T)),
                    needed = static_cast<std::size_t>(omp_get_max_threads()) * block_bytes;
  if (blocks_.bytes() < needed) blocks_ = Arena(needed);

  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t end = std::min(rows, first + at_once);
    std::byte* stage =
        staged_bytes == 0 ? nullptr : staged(static_cast<std::size_t>(end - first) * staged_bytes);
    std::vector<Target> targets;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Destination& d = to[i];
      if (places[i]) {
        targets.push_back({d.tensor.dtype, d.first_row, d.end_row, places[i], row_bytes(d)});
        continue;
      }
      targets.push_back(
          {d.tensor.dtype, std::max(first, d.first_row), std::min(end, d.end_row), stage, row_bytes(d)});
      stage += aligned(static_cast<std::size_t>(end - first) * row_bytes(d));
    }
    in_parallel((end - first + together - 1) / together, [&](int64_t block) {
      const int64_t begin = first + block * together;
      auto* const numbers =
          reinterpret_cast<T*>(blocks_.at(static_cast<std::size_t>(omp_get_thread_num()) * block_bytes));
      write_block(begin, std::min(end, begin + together), columns, std::span<const Target>(targets), numbers,
                  fill);
    });
    for (std::size_t i = 0; i < to.size(); ++i)
      if (const Target& t = targets[i]; !places[i] && t.first < t.end)
        memory_.write(to[i].tensor, t.memory,
                      static_cast<std::size_t>(t.first - to[i].first_row) * t.row_bytes,
                      static_cast<std::size_t>(t.end - t.first) * t.row_bytes);
  }
}

template void RowWriter::write(int64_t, int64_t, std::span<const Destination>, const Fill<float>&);
template void RowWriter::write(int64_t, int64_t, std::span<const Destination>, const Fill<double>&);
template void RowWriter::write(int64_t, int64_t, std::span<const Destination>, const Fill<uint8_t>&);

}  // namespace recollect
