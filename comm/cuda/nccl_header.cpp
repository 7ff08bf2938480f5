// comm/nccl/api.h repeats the declarations of NCCL's header. Where that header is installed, the compiler
// compares the two here.
#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "comm/nccl/api.h"

namespace recollect::nccl {

namespace {

template <typename Ours, typename Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(same(Result::kSuccess, ncclSuccess) &&
              same(Result::kUnhandledCudaError, ncclUnhandledCudaError) &&
              same(Result::kSystemError, ncclSystemError) &&
              same(Result::kInternalError, ncclInternalError) &&
              same(Result::kInvalidArgument, ncclInvalidArgument) &&
              same(Result::kInvalidUsage, ncclInvalidUsage) && same(Result::kRemoteError, ncclRemoteError) &&
              same(Result::kInProgress, ncclInProgress));
static_assert(same(DataType::kUint8, ncclUint8) && same(DataType::kInt64, ncclInt64) &&
              same(DataType::kFloat16, ncclFloat16) && same(DataType::kFloat32, ncclFloat32) &&
              same(DataType::kFloat64, ncclFloat64) && same(DataType::kBfloat16, ncclBfloat16));
static_assert(same(RedOp::kSum, ncclSum) && same(RedOp::kMax, ncclMax));
static_assert(sizeof(Result) == sizeof(ncclResult_t) && sizeof(DataType) == sizeof(ncclDataType_t) &&
              sizeof(RedOp) == sizeof(ncclRedOp_t));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && std::is_trivially_copyable_v<UniqueId>);
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT && kNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kSymmetricWindow == NCCL_WIN_COLL_SYMMETRIC && kZeroCtaPolicy == NCCL_CTA_POLICY_ZERO);

// Later versions add fields after ours.
#define RECOLLECT_SAME_FIELD(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs))
RECOLLECT_SAME_FIELD(size, size);
RECOLLECT_SAME_FIELD(magic, magic);
RECOLLECT_SAME_FIELD(version, version);
RECOLLECT_SAME_FIELD(blocking, blocking);
RECOLLECT_SAME_FIELD(min_ctas, minCTAs);
RECOLLECT_SAME_FIELD(net_name, netName);
RECOLLECT_SAME_FIELD(split_share, splitShare);
RECOLLECT_SAME_FIELD(comm_name, commName);
RECOLLECT_SAME_FIELD(cta_policy, CTAPolicy);
RECOLLECT_SAME_FIELD(shrink_share, shrinkShare);
RECOLLECT_SAME_FIELD(nvlink_centric_sched, nvlinkCentricSched);
#undef RECOLLECT_SAME_FIELD
#if NCCL_VERSION_CODE < 22900
static_assert(sizeof(Config) == sizeof(ncclConfig_t));
#else
static_assert(sizeof(Config) < sizeof(ncclConfig_t) && kTotalMemory == static_cast<int>(ncclStatGpuMemTotal));
#endif

// A pointer of our function type can hold the address of theirs if the parameters are the same, in the same
// registers.
template <typename Ours, typename Theirs>
struct SameShape : std::false_type {};
template <typename R, typename... P, typename S, typename... Q>
struct SameShape<R (*)(P...), S(Q...)>
    : std::bool_constant<sizeof...(P) == sizeof...(Q) && sizeof(R) == sizeof(S) &&
                         ((sizeof(P) == sizeof(Q) && std::is_class_v<P> == std::is_class_v<Q>)&&...)> {};

#define RECOLLECT_SAME_FUNCTION(ours, theirs) \
  static_assert(SameShape<decltype(Api::ours), decltype(::theirs)>::value, #theirs)
RECOLLECT_SAME_FUNCTION(get_version, ncclGetVersion);
RECOLLECT_SAME_FUNCTION(get_unique_id, ncclGetUniqueId);
RECOLLECT_SAME_FUNCTION(comm_init_rank_config, ncclCommInitRankConfig);
RECOLLECT_SAME_FUNCTION(comm_split, ncclCommSplit);
RECOLLECT_SAME_FUNCTION(comm_finalize, ncclCommFinalize);
RECOLLECT_SAME_FUNCTION(comm_destroy, ncclCommDestroy);
RECOLLECT_SAME_FUNCTION(comm_abort, ncclCommAbort);
RECOLLECT_SAME_FUNCTION(comm_get_async_error, ncclCommGetAsyncError);
RECOLLECT_SAME_FUNCTION(get_error_string, ncclGetErrorString);
RECOLLECT_SAME_FUNCTION(get_last_error, ncclGetLastError);
RECOLLECT_SAME_FUNCTION(all_reduce, ncclAllReduce);
RECOLLECT_SAME_FUNCTION(all_gather, ncclAllGather);
RECOLLECT_SAME_FUNCTION(reduce_scatter, ncclReduceScatter);
RECOLLECT_SAME_FUNCTION(broadcast, ncclBroadcast);
RECOLLECT_SAME_FUNCTION(send, ncclSend);
RECOLLECT_SAME_FUNCTION(recv, ncclRecv);
RECOLLECT_SAME_FUNCTION(group_start, ncclGroupStart);
RECOLLECT_SAME_FUNCTION(group_end, ncclGroupEnd);
RECOLLECT_SAME_FUNCTION(comm_window_register, ncclCommWindowRegister);
RECOLLECT_SAME_FUNCTION(comm_window_deregister, ncclCommWindowDeregister);
#undef RECOLLECT_SAME_FUNCTION

}  // namespace

}  // namespace recollect::nccl
#endif
