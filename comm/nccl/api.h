// The part of NCCL's binary interface that we use, declared here so that the communicator compiles without
// NCCL's header. Layouts and numbers are those of version 2.28; a build that has the header checks them.
// Later versions of NCCL 2 keep them.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/nvidia/library.h"

namespace recollect::nccl {

inline constexpr int kOldestVersion = cuda::kOldestNccl;  // the oldest version that has everything used here
inline constexpr int kMultiRankVersion = 23003;           // allows ranks to share a GPU, when asked to
inline constexpr int kVersionOfHeader = 22809;            // the version that Config describes

enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class DataType : int { kUint8 = 1, kInt64 = 4, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };
enum class RedOp : int { kSum = 0, kMax = 2 };

struct UniqueId {
  char internal[128];
};

inline constexpr int kUndefined = INT_MIN;
inline constexpr int kNoColor = -1;  // in a split: this rank gets no new group
inline constexpr int kSymmetricWindow = 1;
inline constexpr int kZeroCtaPolicy = 2;  // use copy engines instead of kernels where possible
inline constexpr int kTotalMemory = 3;    // CommMemStats: all device memory of a communicator

struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kVersionOfHeader;
  int blocking = 0;  // no call blocks: we wait ourselves, with a timeout
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = 0;  // groups are used concurrently, on different streams
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};

struct CommHandle;    // ncclComm
struct WindowHandle;  // ncclWindow_vidmem
using Comm = CommHandle*;
using Window = WindowHandle*;

struct Api {
  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*comm_init_rank_config)(Comm*, int ranks, UniqueId, int rank, Config*) = nullptr;
  Result (*comm_split)(Comm, int color, int key, Comm*, Config*) = nullptr;
  Result (*comm_finalize)(Comm) = nullptr;
  Result (*comm_destroy)(Comm) = nullptr;
  Result (*comm_abort)(Comm) = nullptr;
  Result (*comm_get_async_error)(Comm, Result*) = nullptr;
  const char* (*get_error_string)(Result) = nullptr;
  const char* (*get_last_error)(Comm) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, DataType, RedOp, Comm, void* stream) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, DataType, Comm, void* stream) = nullptr;
  Result (*reduce_scatter)(const void*, void*, std::size_t, DataType, RedOp, Comm, void* stream) = nullptr;
  Result (*broadcast)(const void*, void*, std::size_t, DataType, int root, Comm, void* stream) = nullptr;
  Result (*send)(const void*, std::size_t, DataType, int to, Comm, void* stream) = nullptr;
  Result (*recv)(void*, std::size_t, DataType, int from, Comm, void* stream) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*comm_window_register)(Comm, void*, std::size_t, Window*, int flags) = nullptr;
  Result (*comm_window_deregister)(Comm, Window) = nullptr;
  Result (*comm_mem_stats)(Comm, int stat, uint64_t*) = nullptr;  // null before 2.29

  int version = 0;   // 23007
  std::string path;  // of the library
};

// Returns the address of a function in the library; null if there is none of that name.
using SymbolLookup = std::function<void*(const char* name)>;

// Throws Error kConfiguration if the library lacks a function or is older than kOldestVersion, naming both.
Api load_api(const SymbolLookup& lookup, const std::string& path);

std::string version_text(int version);  // "2.30.7"

}  // namespace recollect::nccl
