#include "engine/ops/cuda/cublas.h"

namespace recollect::cuda {

#define RECOLLECT_CUBLAS(name) library.function<decltype(::name)>(#name)

CublasFunctions::CublasFunctions(const Library& library)
    : version(RECOLLECT_CUBLAS(cublasLtGetVersion)),
      status_string(RECOLLECT_CUBLAS(cublasLtGetStatusString)),
      create(RECOLLECT_CUBLAS(cublasLtCreate)),
      destroy(RECOLLECT_CUBLAS(cublasLtDestroy)),
      create_operation(RECOLLECT_CUBLAS(cublasLtMatmulDescCreate)),
      destroy_operation(RECOLLECT_CUBLAS(cublasLtMatmulDescDestroy)),
      set_operation(RECOLLECT_CUBLAS(cublasLtMatmulDescSetAttribute)),
      create_layout(RECOLLECT_CUBLAS(cublasLtMatrixLayoutCreate)),
      destroy_layout(RECOLLECT_CUBLAS(cublasLtMatrixLayoutDestroy)),
      create_preference(RECOLLECT_CUBLAS(cublasLtMatmulPreferenceCreate)),
      destroy_preference(RECOLLECT_CUBLAS(cublasLtMatmulPreferenceDestroy)),
      set_preference(RECOLLECT_CUBLAS(cublasLtMatmulPreferenceSetAttribute)),
      heuristic(RECOLLECT_CUBLAS(cublasLtMatmulAlgoGetHeuristic)),
      matmul(RECOLLECT_CUBLAS(cublasLtMatmul)) {}

#undef RECOLLECT_CUBLAS

static_assert(CUBLAS_VER_MAJOR == 13, "cublas_name() names the library of these headers");

Cublas::Cublas(const CublasFunctions& functions, GemmContext context, std::string cache, bool timed,
               GemmTrials trials)
    : functions_(functions),
      context_(std::move(context)),
      timed_(timed),
      trials_(std::move(trials)),
      cache_(timed ? std::move(cache) : "") {
  context_.version = functions_.version();
  check(functions_.create(&handle_), "making a handle");
  choices_ = cache_.load(warning_);
}

Cublas::~Cublas() { functions_.destroy(handle_); }

void Cublas::check(cublasStatus_t status, const std::string& doing) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string what = "cuBLASLt, " + doing + ": " + functions_.status_string(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw Error(ExitCode::kDeviceMemory, what, "leave the device more free memory: device.memory_limit");
  throw Error(ExitCode::kInternal, what);
}

}  // namespace recollect::cuda
