// Stands in for CUDA's header of this name.
#pragma once

#include "tests/gpu/fake_cuda/cuda_runtime.h"

#define CUDART_VERSION 13000
