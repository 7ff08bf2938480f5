#include "comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "comm/device/device_self.h"
#include "comm/device/places.h"
#include "engine/core/hash.h"
#include "engine/nvidia/multiprocessors.h"

namespace recollect::nccl {
namespace {

constexpr uint64_t kWorldKey = 1;
constexpr std::size_t kWindowAlignment = 4096;

DataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return DataType::kFloat64;
    case DType::kF32:
      return DataType::kFloat32;
    case DType::kBF16:
      return DataType::kBfloat16;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kI64:
      return DataType::kInt64;
    default:
      return DataType::kUint8;  // only copied
  }
}

RedOp op_of(ReduceOp op) { return op == ReduceOp::kSum ? RedOp::kSum : RedOp::kMax; }

// Rank 0 makes the id by which NCCL's ranks meet. If that fails, the error is broadcast in place of the id.
UniqueId agree_on_id(const Api& api, Communicator& world) {
  struct {
    UniqueId id;
    int64_t result;
  } invitation{};
  if (world.rank() == 0) invitation.result = static_cast<int64_t>(api.get_unique_id(&invitation.id));
  world.broadcast({&invitation, {sizeof invitation}, DType::kU8}, 0);
  if (invitation.result != 0)
    throw Error(ExitCode::kPeerLost,
                std::string("NCCL does not get ready on rank 0: ") +
                    api.get_error_string(static_cast<Result>(invitation.result)),
                "NCCL_SOCKET_IFNAME chooses the network interface; NCCL_DEBUG=INFO makes NCCL say more");
  return invitation.id;
}

// Measures how much device memory making a group took. It is a guess if others use the device too.
class MemoryMeter {
 public:
  explicit MemoryMeter(const device::DeviceRuntime& runtime)
      : runtime_(runtime), before_(runtime.free_bytes()) {}
  std::size_t taken() const {
    const std::size_t now = runtime_.free_bytes();
    return before_ > now ? before_ - now : 0;
  }

 private:
  const device::DeviceRuntime& runtime_;
  const std::size_t before_;
};

}  // namespace

std::unique_ptr<Communicator> join_nccl_world(Api api, std::shared_ptr<device::DeviceRuntime> runtime,
                                              Communicator& world, device::Watchdog::Settings settings,
                                              bool threads) {
  const UniqueId id = agree_on_id(api, world);
  auto session =
      std::make_shared<Session>(std::move(api), std::move(runtime), world, std::move(settings), threads);
  const MemoryMeter meter(session->runtime());
  Handle& handle = session->make_handle();
  Config config;
  const auto join = [&](Comm& comm) {
    return session->api().comm_init_rank_config(&comm, world.size(), id, world.rank(), &config);
  };
  session->settle(handle, handle.with(join), [&] {
    return "connecting " + std::to_string(world.size()) + " ranks through NCCL " +
           version_text(session->api().version);
  });
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = std::make_shared<Group>(*session, handle, kWorldKey, std::move(ranks), meter.taken());
  return std::make_unique<NcclCommunicator>(session, group, world.rank(), world, nullptr);
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<Session> session, std::shared_ptr<Group> group, int rank,
                                   Communicator& host, std::unique_ptr<Communicator> owned_host)
    : session_(std::move(session)),
      group_(std::move(group)),
      rank_(rank),
      host_(host),
      owned_host_(std::move(owned_host)) {
  session_->watchdog().add(group_);
}

NcclCommunicator::~NcclCommunicator() {
  if (!has_failed() && group_->take_leave()) group_->unwatch();
}

// After a failure the watchdog owns the group and aborts it.
bool NcclCommunicator::has_failed() const {
  device::Watchdog& watchdog = session_->watchdog();
  if (std::uncaught_exceptions() > 0)
    watchdog.fail("rank " + std::to_string(session_->world().rank()) + " stopped with an error");
  return watchdog.has_failed();
}

void NcclCommunicator::unshare_memory() noexcept {
  if (!has_failed()) group_->leave_window();
}

std::string NcclCommunicator::name() const {
  return "nccl " + version_text(api().version) + (group_->has_window() ? ", through a window" : "");
}

template <typename Enqueue>
void NcclCommunicator::launch(const CollectiveCall& call, std::initializer_list<Tensor> tensors, void* stream,
                              Enqueue enqueue) {
  if (group_->shares(Shared::kCollectives, tensors)) {
    group_->launch_in_window(call, stream, enqueue);
  } else {
    group_->launch(call, stream, enqueue);
  }
}

void NcclCommunicator::all_reduce(const Tensor& tensor, ReduceOp op, void* stream) {
  const CollectiveCall call = all_reduce_call(tensor, op);
  if (call.bytes == 0) return;
  const auto enqueue = [&](Comm comm) {
    return api().all_reduce(tensor.data, tensor.data, static_cast<std::size_t>(tensor.elements()),
                            type_of(tensor.dtype), op_of(op), comm, stream);
  };
  launch(call, {tensor}, stream, enqueue);
}

void NcclCommunicator::all_gather(const Tensor& in, const Tensor& out, void* stream) {
  const CollectiveCall call = all_gather_call(in, out, size());
  if (call.bytes == 0) return;
  const auto enqueue = [&](Comm comm) {
    return api().all_gather(in.data, out.data, in.bytes(), DataType::kUint8, comm, stream);
  };
  if (group_->shares(Shared::kGathers, {in, out})) {
    group_->launch_copies_in_window(call, stream, enqueue);
  } else {
    launch(call, {in, out}, stream, enqueue);
  }
}

void NcclCommunicator::reduce_scatter(const Tensor& in, const Tensor& out, void* stream) {
  const CollectiveCall call = reduce_scatter_call(in, out, size());
  if (call.bytes == 0) return;
  launch(call, {in, out}, stream, [&](Comm comm) {
    return api().reduce_scatter(in.data, out.data, static_cast<std::size_t>(out.elements()),
                                type_of(in.dtype), RedOp::kSum, comm, stream);
  });
}

void NcclCommunicator::broadcast(const Tensor& tensor, int root, void* stream) {
  const CollectiveCall call = broadcast_call(tensor, root, size());
  if (call.bytes == 0) return;
  group_->launch(call, stream, [&](Comm comm) {
    return api().broadcast(tensor.data, tensor.data, tensor.bytes(), DataType::kUint8, root, comm, stream);
  });
}

void NcclCommunicator::meet(const CollectiveCall& send, int to, const CollectiveCall& receive, int from) {
  CollectiveCall sender, receiver;
  device::swap_records(host_, &send, to, &sender, from, sizeof send);
  device::swap_records(host_, &receive, from, &receiver, to, sizeof receive);
  const int self = session_->world().rank();
  if (to >= 0) check_match(send, self, receiver);
  if (from >= 0) check_match(receive, self, sender);
}

void NcclCommunicator::pass(const Parcel& out, const Parcel& in, void* stream) {
  if (is_copy(out, in, rank_, size())) {
    if (in.tensor.bytes() > 0)
      session_->runtime().copy(in.tensor.data, out.tensor.data, in.tensor.bytes(), stream);
    return;
  }
  session_->watchdog().throw_if_failed();
  const auto named = [this](int rank) { return group_->ranks()[static_cast<std::size_t>(rank)]; };
  NumberedCalls* sends = out ? &group_->pair(rank_, out.peer) : nullptr;
  NumberedCalls* receives = in ? &group_->pair(in.peer, rank_) : nullptr;
  CollectiveCall send, receive;
  if (sends) send = send_call(out, sends->next(), named(out.peer));
  if (receives) receive = receive_call(in, receives->next(), named(in.peer));
  meet(send, out.peer, receive, in.peer);
  const uint32_t sending = sends ? sends->begin(send, stream) : 0;
  const uint32_t receiving = receives ? receives->begin(receive, stream) : 0;
  const auto enqueue = [&](Comm comm) {
    const auto is_fine = [](Result r) { return r == Result::kSuccess || r == Result::kInProgress; };
    Result result = api().group_start();
    if (is_fine(result) && sends)
      result = api().send(out.tensor.data, send.bytes, DataType::kUint8, out.peer, comm, stream);
    if (is_fine(result) && receives)
      result = api().recv(in.tensor.data, receive.bytes, DataType::kUint8, in.peer, comm, stream);
    const Result ended = api().group_end();
    return is_fine(result) ? ended : result;
  };
  session_->settle(group_->handle(), group_->handle().with(enqueue),
                   [&] { return sends ? sends->describe(sending) : receives->describe(receiving); });
  if (sends) sends->end(sending, stream);
  if (receives) receives->end(receiving, stream);
}

void NcclCommunicator::barrier() {
  session_->watchdog().throw_if_failed();
  host_.barrier();
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color) { return split(color, Config()); }

// If NCCL_MAX_CTAS is set, it overrides this limit.
std::unique_ptr<Communicator> NcclCommunicator::split_beside_products(int color) {
  Config config;
  config.max_ctas = cuda::kMultiprocessorsOfCollectives;
  return split(color, config);
}

// NCCL's colours must not be negative, so the first rank of a colour stands for it.
std::unique_ptr<Communicator> NcclCommunicator::split(int color, Config config) {
  session_->watchdog().throw_if_failed();
  std::vector<int> colors(static_cast<std::size_t>(size())), ranks;
  device::gather_records(host_, &color, colors.data(), sizeof color);
  for (std::size_t r = 0; r < colors.size(); ++r)
    if (colors[r] == color) ranks.push_back(group_->ranks()[r]);
  const bool alone = ranks.size() == 1;
  const auto first = static_cast<int>(std::find(colors.begin(), colors.end(), color) - colors.begin());
  const MemoryMeter meter(session_->runtime());
  Handle& made = session_->make_handle();
  const auto begin = [&](Comm parent) {
    return made.with([&](Comm& child) {
      return api().comm_split(parent, alone ? kNoColor : first, rank_, &child, &config);
    });
  };
  const auto doing = [&] { return "splitting off " + name_ranks(ranks); };
  Handle& parent = group_->handle();
  session_->settle(parent, session_->begun(parent, parent.with(begin)),
                   doing);  // the child does not exist before that
  std::unique_ptr<Communicator> host = host_.split(color);
  const uint64_t pedigree[] = {group_->key(), ++splits_, static_cast<uint64_t>(first)};
  if (alone) return device::make_device_self(session_->shared_runtime());
  session_->settle(made, made.status(), doing);
  const auto place = static_cast<int>(std::count(colors.begin(), colors.begin() + rank_, color));
  auto group = std::make_shared<Group>(*session_, made, hash_bytes(pedigree, sizeof pedigree) | 2,
                                       std::move(ranks), meter.taken(), config.max_ctas);
  Communicator& host_of_group = *host;
  return std::make_unique<NcclCommunicator>(session_, std::move(group), place, host_of_group,
                                            std::move(host));
}

void NcclCommunicator::abort(const std::string& why) noexcept {
  try {
    session_->watchdog().fail("rank " + std::to_string(session_->world().rank()) + " stopped: " + why);
  } catch (...) {
    session_->world().abort("a rank stopped");
  }
}

void NcclCommunicator::check() {
  session_->watchdog().throw_if_failed();
  session_->watchdog().completed();
}

bool NcclCommunicator::is_on_one_node() const {
  const uint64_t mine = session_->runtime().node();
  std::vector<uint64_t> all(static_cast<std::size_t>(size()));
  device::gather_records(host_, &mine, all.data(), sizeof mine);
  return std::all_of(all.begin(), all.end(), [&](uint64_t node) { return node == mine; });
}

// Either all ranks have a window or none has: the ranks vote before and after trying.
bool NcclCommunicator::share_memory(void* base, std::size_t bytes, Shared what) {
  const auto all_say = [this](bool yes) {
    int64_t lacking = yes ? 0 : 1;
    host_.all_reduce({&lacking, {1}, DType::kI64}, ReduceOp::kMax);
    return lacking == 0;
  };
  const char* wanted = std::getenv("NCCL_WIN_ENABLE");
  const bool off = wanted && std::strcmp(wanted, "0") == 0;
  const bool aligned = reinterpret_cast<uintptr_t>(base) % kWindowAlignment == 0;
  session_->watchdog().throw_if_failed();
  require(!group_->has_window(), "one piece of memory is shared with a group");
  if (!is_on_one_node()) return false;
  if (!all_say(!off && aligned && bytes > 0 && session_->runtime().is_shareable(base))) return false;
  if (all_say(group_->open_window(base, bytes, what))) return true;
  group_->close_window();
  return false;
}

}  // namespace recollect::nccl
