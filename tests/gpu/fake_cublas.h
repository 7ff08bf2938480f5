// cuBLASLt's functions on the CPU, as much as Gemm asks for: descriptors are kept, products computed from
// them in column-major order as the library's documents say. Its algorithms have the numbers that a test
// gives them; odd ones refuse to run. Operands must be as aligned as was said, of a type that can be computed so, and
// apart from the workspace, of which the first byte and the last one are overwritten; and all comes on one stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/core/float8.h"
#include "engine/ops/cuda/cublas.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

// One rank's, made anew for every Libraries.
struct FakeCublas {
  std::vector<uint64_t> proposals = {2, 4, 6};
  std::map<uint64_t, double> milliseconds;  // of an algorithm; 1 where it is not given
  uint64_t unsteady = 0;       // the algorithm whose results change from run to run, in one number
  uint64_t unsteady_sums = 0;  // the same of the sums of an operand
  std::size_t version = 130100;
  int multiprocessors = 1;
  bool sums = true;  // whether products make sums of an operand
  bool gelu = true;  // whether they end with GELU, and with its derivative
  static constexpr uint64_t kSums = 1000,
                            kGelu = 2000;  // more is the number of an algorithm that does

  static void* stream() { return reinterpret_cast<void*>(0x100); }  // that everything is put on

  // What has been asked for.
  int heuristics = 0, timings = 0, fills = 0;
  std::vector<uint64_t> ran;
  std::vector<int32_t>
      targets;  // on how many multiprocessors that was to be, 0: all; and the same when it was proposed
  std::vector<int32_t> targets_proposed;
  bool tf32 = false;  // whether the latest product was to be computed so

  // `this` must outlive what is returned; one at a time.
  std::unique_ptr<Libraries> libraries(const std::string& cache = "", bool timed = true, bool tf32 = false);
};

}  // namespace recollect::cuda
