#include "parallel/optimizers/matrices.h"

namespace recollect {

std::vector<MatrixPart> matrices_of(const Parameter& p, int tensor_size) {
  if (p.block_names.empty()) return {{0, 0, p.local_rows(tensor_size), p.rows}};
  std::vector<MatrixPart> matrices;
  int64_t first = 0;
  for (const int64_t whole : p.blocks) {
    const int64_t here = p.split == Parameter::Split::kRows ? whole * p.repeats / tensor_size : whole;
    matrices.push_back({static_cast<int64_t>(matrices.size()), first, here, whole});
    first += here;
  }
  return matrices;
}

}  // namespace recollect
