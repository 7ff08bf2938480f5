// Marks functions that are called both on the host and in device kernels. Empty for compilers other than
// CUDA's.
#pragma once

#ifdef __CUDACC__
#define RECOLLECT_HOST_DEVICE __host__ __device__
#else
#define RECOLLECT_HOST_DEVICE
#endif
