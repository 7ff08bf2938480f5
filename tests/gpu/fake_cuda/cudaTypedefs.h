// Stands in for CUDA's header of this name.
#pragma once

#include "tests/gpu/fake_cuda/cuda.h"

using PFN_cuMemGetAllocationGranularity_v10020 = CUresult (*)(std::size_t*, const CUmemAllocationProp*,
                                                              CUmemAllocationGranularity_flags);
using PFN_cuDeviceGetAttribute_v2000 = CUresult (*)(int*, CUdevice_attribute, CUdevice);
using PFN_cuMemCreate_v10020 = CUresult (*)(CUmemGenericAllocationHandle*, std::size_t,
                                            const CUmemAllocationProp*, unsigned long long);
using PFN_cuMemRelease_v10020 = CUresult (*)(CUmemGenericAllocationHandle);
using PFN_cuMemAddressReserve_v10020 = CUresult (*)(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                                                    unsigned long long);
using PFN_cuMemAddressFree_v10020 = CUresult (*)(CUdeviceptr, std::size_t);
using PFN_cuMemMap_v10020 = CUresult (*)(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                                         unsigned long long);
using PFN_cuMemUnmap_v10020 = CUresult (*)(CUdeviceptr, std::size_t);
using PFN_cuMemSetAccess_v10020 = CUresult (*)(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);
using PFN_cuMemRetainAllocationHandle_v11000 = CUresult (*)(CUmemGenericAllocationHandle*, void*);
using PFN_cuStreamWriteValue32_v11070 = CUresult (*)(CUstream, CUdeviceptr, uint32_t, unsigned);
