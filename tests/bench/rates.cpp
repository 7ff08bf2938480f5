// What this machine can do at most, on all threads, against which other figures are held.
//
//   bench_rates    one line of JSON: FLOPs and bytes a second; 0 where the processor has no such unit
#include "tests/bench/rates.h"

#include <fmt/format.h>

int main() {
  using namespace recollect::bench;
  fmt::print(
      R"({{"threads": {}, "multiply_add_f32": {:.4g}, "dot_product_bf16": {:.4g}, "tile_product_bf16": {:.4g}, )"
      R"("triad": {:.4g}}})"
      "\n",
      omp_get_max_threads(), multiply_add_rate(), dot_product_rate(), tile_product_rate(), triad_rate());
}
