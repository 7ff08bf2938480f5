#include "comm/nccl/api.h"

#include "engine/core/error.h"

namespace recollect::nccl {
namespace {

constexpr const char* kHint = "install NCCL 2.28 or later: pip install nvidia-nccl-cu13";

template <typename Function>
void find(const SymbolLookup& lookup, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(lookup(name));
  if (!function)
    throw Error(ExitCode::kConfiguration, "the NCCL library " + path + " has no function " + name, kHint);
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Api load_api(const SymbolLookup& lookup, const std::string& path) {
  Api api;
  api.path = path;
  find(lookup, path, "ncclGetVersion", api.get_version);
  if (api.get_version(&api.version) != Result::kSuccess || api.version < kOldestVersion)
    throw Error(ExitCode::kConfiguration,
                "the NCCL library " + path + " is version " + version_text(api.version) + ", and too old",
                kHint);
  find(lookup, path, "ncclGetUniqueId", api.get_unique_id);
  find(lookup, path, "ncclCommInitRankConfig", api.comm_init_rank_config);
  find(lookup, path, "ncclCommSplit", api.comm_split);
  find(lookup, path, "ncclCommFinalize", api.comm_finalize);
  find(lookup, path, "ncclCommDestroy", api.comm_destroy);
  find(lookup, path, "ncclCommAbort", api.comm_abort);
  find(lookup, path, "ncclCommGetAsyncError", api.comm_get_async_error);
  find(lookup, path, "ncclGetErrorString", api.get_error_string);
  find(lookup, path, "ncclGetLastError", api.get_last_error);
  find(lookup, path, "ncclAllReduce", api.all_reduce);
  find(lookup, path, "ncclAllGather", api.all_gather);
  find(lookup, path, "ncclReduceScatter", api.reduce_scatter);
  find(lookup, path, "ncclBroadcast", api.broadcast);
  find(lookup, path, "ncclSend", api.send);
  find(lookup, path, "ncclRecv", api.recv);
  find(lookup, path, "ncclGroupStart", api.group_start);
  find(lookup, path, "ncclGroupEnd", api.group_end);
  find(lookup, path, "ncclCommWindowRegister", api.comm_window_register);
  find(lookup, path, "ncclCommWindowDeregister", api.comm_window_deregister);
  api.comm_mem_stats = reinterpret_cast<decltype(api.comm_mem_stats)>(lookup("ncclCommMemStats"));
  return api;
}

}  // namespace recollect::nccl
