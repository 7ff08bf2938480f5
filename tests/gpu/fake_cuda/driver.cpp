// The driver's functions that the backend asks for by name: memory by addresses and handles, and words that streams
// write.
#include <atomic>
#include <cstring>
#include <map>

#include "tests/gpu/fake_cuda/call.h"
#include "tests/gpu/fake_cuda/cuda.h"

using namespace recollect::fake_cuda;

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

CUresult result_of(cudaError_t status) {
  return status == cudaSuccess                 ? CUDA_SUCCESS
         : status == cudaErrorMemoryAllocation ? CUDA_ERROR_OUT_OF_MEMORY
                                               : CUDA_ERROR_INVALID_VALUE;
}

template <typename Function>
CUresult driver(Function function) {
  return result_of(call(
      [&](World& w, World::Lock& lock) { return function(w, lock) ? cudaSuccess : cudaErrorInvalidValue; }));
}

std::byte* at(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

CUresult get_granularity(std::size_t* granularity, const CUmemAllocationProp*,
                         CUmemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult get_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}

// A handle is the device, and how many pieces of the granularity there are. Who has one, by making it or by asking for it,
// gives it back.
constexpr unsigned long long kOfDevice = 1ull << 40;

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* kind,
                unsigned long long) {
  return result_of(call([&](World& w, World::Lock&) {
    const int device = kind->location.id;
    if (kind->type != CU_MEM_ALLOCATION_TYPE_PINNED || kind->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return cudaErrorInvalidValue;
    if (kind->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return cudaErrorInvalidValue;  // no other process could map it, and plain memory would do
    if (!kind->allocFlags.gpuDirectRDMACapable)
      return cudaErrorInvalidValue;  // no network card could read it
    if (bytes == 0 || bytes % kGranularity != 0 || device < 0 || device >= w.settings().devices)
      return cudaErrorInvalidValue;
    if (bytes > w.settings().memory - w.memory().used(device)) return cudaErrorMemoryAllocation;
    *handle = (static_cast<unsigned long long>(device) + 1) * kOfDevice + bytes / kGranularity;
    ++w.memory_handles;
    return cudaSuccess;
  }));
}

CUresult release(CUmemGenericAllocationHandle) {
  return driver([&](World& w, World::Lock&) { return w.memory_handles-- > 0; });
}

CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  return driver([&](World& w, World::Lock&) {
    std::byte* const base = w.memory().reserve_addresses(bytes);
    *address = reinterpret_cast<CUdeviceptr>(base);
    return base != nullptr;
  });
}

CUresult give_back(CUdeviceptr address, std::size_t bytes) {
  return driver([&](World& w, World::Lock&) { return w.memory().free_addresses(at(address), bytes); });
}

CUresult map_memory(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long) {
  return driver([&](World& w, World::Lock&) {
    const auto device = static_cast<int>(handle / kOfDevice) - 1;
    return offset == 0 && handle % kOfDevice * kGranularity == bytes &&
           w.memory().map(at(address), bytes, device);
  });
}

CUresult unmap_memory(CUdeviceptr address, std::size_t bytes) {
  return driver([&](World& w, World::Lock&) { return w.memory().unmap(at(address), bytes); });
}

CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                    std::size_t count) {
  return driver([&](World& w, World::Lock&) {
    return count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
           w.memory().give_access(at(address), bytes, access->location.id);
  });
}

CUresult retain(CUmemGenericAllocationHandle* handle, void* memory) {
  return driver([&](World& w, World::Lock&) {
    const Piece* piece = w.memory().find(memory);
    if (!piece || !piece->mapped) return false;
    *handle = (static_cast<unsigned long long>(piece->device) + 1) * kOfDevice + piece->bytes / kGranularity;
    ++w.memory_handles;
    return true;
  });
}

// With a barrier before it: what the word tells of has happened.
CUresult write_value(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  return result_of(call_on(stream, [&](World& w, World::Lock&) {
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return cudaErrorInvalidValue;
    const auto place = w.memory().place_of(at(address), sizeof value);
    if (!place || *place == Place::kPageable || address % sizeof value != 0) return cudaErrorInvalidValue;
    auto* const word = reinterpret_cast<uint32_t*>(address);
    w.put(stream, job_of([=] { std::atomic_ref(*word).store(value, std::memory_order_release); }));
    return cudaSuccess;
  }));
}

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const std::map<std::string, void*> functions = {
      {"cuDeviceGetAttribute", address_of(get_attribute)},
      {"cuMemGetAllocationGranularity", address_of(get_granularity)},
      {"cuMemCreate", address_of(create)},
      {"cuMemRelease", address_of(release)},
      {"cuMemAddressReserve", address_of(reserve)},
      {"cuMemAddressFree", address_of(give_back)},
      {"cuMemMap", address_of(map_memory)},
      {"cuMemUnmap", address_of(unmap_memory)},
      {"cuMemSetAccess", address_of(set_access)},
      {"cuMemRetainAllocationHandle", address_of(retain)},
      {"cuStreamWriteValue32", address_of(write_value)}};
  const auto found = functions.find(name);
  *function = found == functions.end() ? nullptr : found->second;
  *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
