// cuBLASLt on one device, for one rank: its functions, its handle, and the algorithms chosen with it. Private
// to this folder, because it exposes NVIDIA's types.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <map>
#include <string>

#include "engine/core/error.h"
#include "engine/nvidia/library.h"
#include "engine/ops/cuda/gemm_choices.h"

namespace recollect::cuda {

// The functions that are used. A test may replace them.
struct CublasFunctions {
  decltype(::cublasLtGetVersion)* version;
  decltype(::cublasLtGetStatusString)* status_string;
  decltype(::cublasLtCreate)* create;
  decltype(::cublasLtDestroy)* destroy;
  decltype(::cublasLtMatmulDescCreate)* create_operation;
  decltype(::cublasLtMatmulDescDestroy)* destroy_operation;
  decltype(::cublasLtMatmulDescSetAttribute)* set_operation;
  decltype(::cublasLtMatrixLayoutCreate)* create_layout;
  decltype(::cublasLtMatrixLayoutDestroy)* destroy_layout;
  decltype(::cublasLtMatmulPreferenceCreate)* create_preference;
  decltype(::cublasLtMatmulPreferenceDestroy)* destroy_preference;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* set_preference;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(::cublasLtMatmul)* matmul;

  explicit CublasFunctions(const Library& library);
  CublasFunctions() = default;
};

// How candidate algorithms are tried (autotune): on the device, or simulated in a test.
struct GemmTrials {
  // Fills an operand with numbers of magnitude about one, the same ones every time. Zeros would be multiplied
  // faster.
  std::function<void(void* data, DType dtype, int64_t elements, void* stream)> fill;
  // Returns the median time, in milliseconds, of the work that `enqueue` puts on the stream.
  std::function<double(const std::function<void()>& enqueue, void* stream)> time;
  // Returns a number that almost certainly changes if any byte changes. Overwrites 8 bytes of device memory.
  std::function<uint64_t(const void* data, std::size_t bytes, void* scratch, void* stream)> fingerprint;
  // Sets out = bias, rounded to the dtype of the product.
  std::function<void(const float* bias, int64_t elements, void* out, DType dtype, void* stream)> round_bias;
};
GemmTrials device_trials();

class Cublas {
 public:
  // The handle belongs to the calling thread's device. `cache` is the file that keeps choices, "" for none.
  // If not `timed`, the library's first proposal is used and nothing is kept.
  Cublas(const CublasFunctions& functions, GemmContext context, std::string cache, bool timed,
         GemmTrials trials);
  ~Cublas();
  Cublas(const Cublas&) = delete;

  const CublasFunctions& functions() const { return functions_; }
  cublasLtHandle_t handle() const { return handle_; }
  const GemmContext& context() const { return context_; }
  bool timed() const { return timed_; }
  const GemmTrials& trials() const { return trials_; }
  // Throws the Error for a failed call: kDeviceMemory if the library has no memory left, else kInternal.
  void check(cublasStatus_t status, const std::string& doing) const;

  GemmChoices& choices() { return choices_; }  // chosen here, read from the file, or another rank's
  GemmCache& cache() { return cache_; }
  std::map<std::string, GemmAlgorithm>& in_use() { return in_use_; }  // have run here: final
  std::string& warning() { return warning_; }                         // warning of the cache; "": none

 private:
  CublasFunctions functions_;
  GemmContext context_;
  bool timed_;
  GemmTrials trials_;
  cublasLtHandle_t handle_ = nullptr;
  GemmCache cache_;
  GemmChoices choices_;
  std::map<std::string, GemmAlgorithm> in_use_;
  std::string warning_;
};

}  // namespace recollect::cuda
