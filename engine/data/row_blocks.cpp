#include "engine/data/row_blocks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace recollect {

// Threads take blocks in order, so that all blocks before one that fails have been taken, and are finished.
void for_each_block(std::size_t rows, std::size_t rows_of_a_block, int threads,
                    const std::function<void(const RowBlock&, EncodingMemory&)>& work) {
  const std::size_t blocks = count_blocks(rows, rows_of_a_block);
  std::vector<std::exception_ptr> errors(blocks);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto take_blocks = [&] {
    EncodingMemory memory;
    while (!failed) {
      const std::size_t number = next++;
      if (number >= blocks) return;
      const std::size_t begin = number * rows_of_a_block;
      try {
        work({number, begin, std::min(rows, begin + rows_of_a_block)}, memory);
      } catch (...) {
        errors[number] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(take_blocks);
    take_blocks();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace recollect
