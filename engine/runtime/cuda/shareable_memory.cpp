#include "engine/runtime/cuda/shareable_memory.h"

#include "engine/runtime/cuda/driver.h"

namespace recollect::cuda {

namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;  // the drivers' unit; only whole pieces are mapped

std::size_t whole_pieces(std::size_t bytes) { return (bytes + kPiece - 1) / kPiece * kPiece; }

struct Driver {
  PFN_cuDeviceGetAttribute_v2000 attribute =
      driver_function<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute", 2000);
  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      driver_function<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity", 10020);
  PFN_cuMemCreate_v10020 create = driver_function<PFN_cuMemCreate_v10020>("cuMemCreate", 10020);
  PFN_cuMemRelease_v10020 release = driver_function<PFN_cuMemRelease_v10020>("cuMemRelease", 10020);
  PFN_cuMemAddressReserve_v10020 reserve_address =
      driver_function<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve", 10020);
  PFN_cuMemAddressFree_v10020 free_address =
      driver_function<PFN_cuMemAddressFree_v10020>("cuMemAddressFree", 10020);
  PFN_cuMemMap_v10020 map = driver_function<PFN_cuMemMap_v10020>("cuMemMap", 10020);
  PFN_cuMemUnmap_v10020 unmap = driver_function<PFN_cuMemUnmap_v10020>("cuMemUnmap", 10020);
  PFN_cuMemSetAccess_v10020 set_access = driver_function<PFN_cuMemSetAccess_v10020>("cuMemSetAccess", 10020);
};

void give_back(std::byte* base, std::size_t bytes) {
  const Driver driver;
  cudaDeviceSynchronize();  // as cudaFree does
  const auto address = reinterpret_cast<CUdeviceptr>(base);
  driver.unmap(address, whole_pieces(bytes));
  driver.free_address(address, whole_pieces(bytes));
}

// If network cards can access memory of this kind, NCCL may let them, and the allocation must say so.
bool is_for_network_cards(const Driver& driver, int ordinal) {
  int supported = 0;
  return driver.attribute(&supported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ordinal) ==
             CUDA_SUCCESS &&
         supported != 0;
}

// Maps physical memory at the addresses, for this device to read and write. The mapping keeps the memory
// alive.
bool back(const Driver& driver, CUdeviceptr address, std::size_t size, const CUmemAllocationProp& kind) {
  CUmemGenericAllocationHandle memory = 0;
  if (driver.create(&memory, size, &kind, 0) != CUDA_SUCCESS) return false;
  const bool mapped = driver.map(address, size, 0, memory, 0) == CUDA_SUCCESS;
  driver.release(memory);
  if (!mapped) return false;
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (driver.set_access(address, size, &access, 1) == CUDA_SUCCESS) return true;
  driver.unmap(address, size);
  return false;
}

}  // namespace

std::optional<Arena> reserve_shareable(int ordinal, std::size_t bytes) {
  const Driver driver;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = ordinal;
  kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  kind.allocFlags.gpuDirectRDMACapable = is_for_network_cards(driver, ordinal) ? 1 : 0;
  std::size_t granularity = 0;
  if (driver.granularity(&granularity, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
      granularity == 0 || kPiece % granularity != 0)
    return {};
  const std::size_t size = whole_pieces(bytes);
  CUdeviceptr address = 0;
  if (driver.reserve_address(&address, size, 0, 0, 0) != CUDA_SUCCESS) return {};
  if (back(driver, address, size, kind))
    return Arena(reinterpret_cast<std::byte*>(address), bytes, give_back);
  driver.free_address(address, size);
  return {};
}

}  // namespace recollect::cuda
