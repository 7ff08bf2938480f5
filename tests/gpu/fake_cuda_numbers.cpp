// The numbers of the errors that the tests' fake CUDA gives are those of CUDA's header.
#include <cuda_runtime_api.h>

#define RECOLLECT_CUDA_ERROR(name, number, text) static_assert(name == (number));
#include "tests/gpu/fake_cuda/errors.inc"
#undef RECOLLECT_CUDA_ERROR
