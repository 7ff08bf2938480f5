// Rows of a parameter on their way to where they lie: made a block at a time on all threads, rounded to each dtype that they
// are wanted in, and stored, all by the thread that made them. What the host reaches by address is written there and nowhere
// else: a file's numbers that need no rounding come straight to their place. What only copies reach passes through pinned
// memory, many blocks at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/core/arena.h"
#include "engine/runtime/program_memory.h"

namespace recollect {

class RowWriter {
 public:
  // One place of the rows, which has those from first_row to end_row.
  struct Destination {
    SharedTensor tensor;
    int64_t first_row = 0, end_row = 0;
  };
  // Writes rows first ... first + count - 1, all of their numbers, to `out`. From any thread.
  template <typename T>
  using Fill = std::function<void(int64_t first, int64_t count, T* out)>;

  explicit RowWriter(const ProgramMemory& memory) : memory_(memory) {}

  // T: float, or double where a destination is f64; numbers are rounded from it. Or bytes, which are stored as they are. Rows that no destination has are not made.
  template <typename T>
  void write(int64_t rows, int64_t columns, std::span<const Destination> to, const Fill<T>& fill);

 private:
  struct Target;
  template <typename T>
  static void write_block(int64_t first, int64_t end, int64_t columns, std::span<const Target> targets,
                          T* numbers, const Fill<T>& fill);
  std::byte* staged(std::size_t bytes);

  const ProgramMemory& memory_;
  Arena staging_{0}, blocks_{0};  // of all threads
};

}  // namespace recollect
