// Rows of a file, worked on by several threads, such that neither the result nor the error depends on how many there
// are.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct RowBlock {
  std::size_t number, begin, end;  // its rows are those from `begin` on
};

inline std::size_t count_blocks(std::size_t rows, std::size_t rows_of_a_block) {
  return (rows + rows_of_a_block - 1) / rows_of_a_block;
}

// Calls work(block, memory) for each block, from `threads` threads. Where some throw, the error is that of the first
// block that does.
void for_each_block(std::size_t rows, std::size_t rows_of_a_block, int threads,
                    const std::function<void(const RowBlock& block, EncodingMemory& memory)>& work);

}  // namespace recollect
