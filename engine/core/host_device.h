// Marks functions that kernels call on a device as well as the host does. Nothing to other compilers than
// CUDA's.
#pragma once

#ifdef __CUDACC__
#define RECOLLECT_HOST_DEVICE __host__ __device__
#else
#define RECOLLECT_HOST_DEVICE
#endif
