#include "comm/device_local/device_local_communicator.h"

#include <algorithm>
#include <numeric>

#include "comm/device/device_self.h"
#include "comm/device/places.h"

namespace recollect::device_local {
namespace {

constexpr int64_t kLineBytes = 128;

struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// Divides the elements into shares of whole memory lines, as even as possible.
Range share_of(int rank, int size, int64_t elements, std::size_t width) {
  const int64_t line = kLineBytes / static_cast<int64_t>(width);
  const int64_t lines = (elements + line - 1) / line;
  return {std::min(elements, lines * rank / size * line),
          std::min(elements, lines * (rank + 1) / size * line)};
}

}  // namespace

Events::Events(std::shared_ptr<device::DeviceRuntime> of, int ranks)
    : runtime(std::move(of)), copied(static_cast<std::size_t>(ranks), nullptr) {
  ready = runtime->make_event();
  reduced = runtime->make_event();
  done = runtime->make_event();
}

Events::~Events() {
  for (void* event : {ready, reduced, done}) runtime->destroy_event(event);
  for (void* event : copied)
    if (event) runtime->destroy_event(event);
}

std::unique_ptr<Communicator> join_device_local_world(std::shared_ptr<device::DeviceRuntime> runtime,
                                                      Communicator& world) {
  if (world.size() > kMostRanks)
    throw Error(ExitCode::kConfiguration,
                std::to_string(world.size()) + " rank threads share one device; it can be " +
                    std::to_string(kMostRanks) + " at most",
                "start fewer ranks, or processes");
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<DeviceLocalCommunicator>(std::move(runtime), std::move(ranks), world, nullptr);
}

DeviceLocalCommunicator::DeviceLocalCommunicator(std::shared_ptr<device::DeviceRuntime> runtime,
                                                 std::vector<int> world_ranks, Communicator& host,
                                                 std::unique_ptr<Communicator> owned_host)
    : runtime_(std::move(runtime)),
      host_(host),
      owned_host_(std::move(owned_host)),
      rank_(host.rank()),
      size_(host.size()),
      world_ranks_(std::move(world_ranks)),
      visits_(static_cast<std::size_t>(size_)),
      calls_(static_cast<std::size_t>(size_)),
      parts_(static_cast<std::size_t>(size_)),
      sent_(static_cast<std::size_t>(size_)),
      received_(static_cast<std::size_t>(size_)) {
  exchange_events();
}

// The ranks are threads of one process, so sending an address is enough. The barrier keeps every rank's
// pointer alive until all ranks have copied it.
void DeviceLocalCommunicator::exchange_events() {
  const auto mine = std::make_shared<Events>(runtime_, size_);
  const std::shared_ptr<Events>* address = &mine;
  std::vector<const std::shared_ptr<Events>*> all(static_cast<std::size_t>(size_));
  // NOLINTNEXTLINE(bugprone-sizeof-expression): it is the address that travels
  device::gather_records(host_, &address, all.data(), sizeof address);
  for (const auto* one : all) events_.push_back(*one);
  host_.barrier();
}

// The host communicator's error about a lost peer names its own call; this adds the call on device memory.
template <typename Function>
void DeviceLocalCommunicator::with_peers(Function function) {
  try {
    function();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kPeerLost) throw;
    throw Error(error.code(), call_.to_string() + " on device memory: " + error.what(), error.hint());
  }
}

// When this returns, each rank knows every rank's tensor, and every rank's `ready` event has been recorded.
void DeviceLocalCommunicator::meet(CollectiveCall call, const void* data, void* stream) {
  call.sequence = ++sequence_;
  call_ = call;
  runtime_->record(events_[static_cast<std::size_t>(rank_)]->ready, stream);
  visits_[static_cast<std::size_t>(rank_)] = {call, static_cast<std::byte*>(const_cast<void*>(data))};
  with_peers([this] { gather_visits(); });
}

void DeviceLocalCommunicator::gather_visits() {
  const Visit mine = visits_[static_cast<std::size_t>(rank_)];
  device::gather_records(host_, &mine, visits_.data(), sizeof mine);
  for (std::size_t r = 0; r < visits_.size(); ++r) calls_[r] = visits_[r].call;
  check_agreement(calls_, world_ranks_);
}

// Records that this rank's stream has come so far, and waits until all ranks' threads have done the same.
void DeviceLocalCommunicator::pass(void* Events::*event, void* stream) {
  runtime_->record(events_[static_cast<std::size_t>(rank_)].get()->*event, stream);
  with_peers([this] { host_.barrier(); });
}

void DeviceLocalCommunicator::await(void* Events::*event, void* stream) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) runtime_->wait(stream, events_[static_cast<std::size_t>(r)].get()->*event);
}

void DeviceLocalCommunicator::all_reduce(const Tensor& tensor, ReduceOp op, void* stream) {
  const CollectiveCall call = all_reduce_call(tensor, op);
  if (call.bytes == 0) return;
  meet(call, tensor.data, stream);
  const std::size_t width = size_of(tensor.dtype);
  const auto share = [&](int r) { return share_of(r, size_, tensor.elements(), width); };
  const auto at = [&](int r, const Range& range) {
    return visits_[static_cast<std::size_t>(r)].data + static_cast<std::size_t>(range.begin) * width;
  };
  const Range own = share(rank_);
  await(&Events::ready, stream);
  for (int r = 0; r < size_; ++r) parts_[static_cast<std::size_t>(r)] = at(r, own);
  if (own.count() > 0)
    runtime_->reduce(tensor.dtype, op, parts_.data(), size_, at(rank_, own), own.count(), stream);
  pass(&Events::reduced, stream);
  await(&Events::reduced, stream);
  for (int r = 0; r < size_; ++r) {
    const Range theirs = share(r);
    if (r != rank_ && theirs.count() > 0)
      runtime_->copy(at(rank_, theirs), at(r, theirs), static_cast<std::size_t>(theirs.count()) * width,
                     stream);
  }
  pass(&Events::done, stream);
  await(&Events::done, stream);
}

void DeviceLocalCommunicator::all_gather(const Tensor& in, const Tensor& out, void* stream) {
  const CollectiveCall call = all_gather_call(in, out, size_);
  if (call.bytes == 0) return;
  meet(call, in.data, stream);
  await(&Events::ready, stream);
  for (int r = 0; r < size_; ++r) {
    std::byte* to = static_cast<std::byte*>(out.data) + static_cast<std::size_t>(r) * in.bytes();
    const std::byte* from = visits_[static_cast<std::size_t>(r)].data;
    if (to != from) runtime_->copy(to, from, in.bytes(), stream);
  }
  pass(&Events::done, stream);
  await(&Events::done, stream);
}

void DeviceLocalCommunicator::reduce_scatter(const Tensor& in, const Tensor& out, void* stream) {
  const CollectiveCall call = reduce_scatter_call(in, out, size_);
  if (call.bytes == 0) return;
  meet(call, in.data, stream);
  await(&Events::ready, stream);
  for (std::size_t r = 0; r < parts_.size(); ++r)
    parts_[r] = visits_[r].data + static_cast<std::size_t>(rank_) * out.bytes();
  runtime_->reduce(in.dtype, ReduceOp::kSum, parts_.data(), size_, out.data, out.elements(), stream);
  pass(&Events::done, stream);
  await(&Events::done, stream);
}

// Only the root's tensor is read by others.
void DeviceLocalCommunicator::broadcast(const Tensor& tensor, int root, void* stream) {
  const CollectiveCall call = broadcast_call(tensor, root, size_);
  if (call.bytes == 0) return;
  meet(call, tensor.data, stream);
  if (rank_ != root) {
    const auto at = static_cast<std::size_t>(root);
    runtime_->wait(stream, events_[at]->ready);
    runtime_->copy(tensor.data, visits_[at].data, tensor.bytes(), stream);
  }
  pass(&Events::done, stream);
  if (rank_ == root) await(&Events::done, stream);
}

// Copies on the receiver's stream. Returns the event that shows when the copy is done.
void* DeviceLocalCommunicator::copy_from(const Visit& sender, const Parcel& in, void* stream) {
  runtime_->wait(stream, events_[static_cast<std::size_t>(in.peer)]->ready);
  if (in.tensor.bytes() > 0) runtime_->copy(in.tensor.data, sender.data, in.tensor.bytes(), stream);
  void*& copied = events_[static_cast<std::size_t>(rank_)]->copied[static_cast<std::size_t>(in.peer)];
  if (!copied) copied = runtime_->make_event();
  runtime_->record(copied, stream);
  return copied;
}

// The two threads first exchange the tensor's address. When the receiver has enqueued its copy, it sends back
// the event that the sender's stream must wait for. Both get the other's call before anything is thrown.
void DeviceLocalCommunicator::pass(const Parcel& out, const Parcel& in, void* stream) {
  if (is_copy(out, in, rank_, size_)) {
    if (in.tensor.bytes() > 0) runtime_->copy(in.tensor.data, out.tensor.data, in.tensor.bytes(), stream);
    return;
  }
  const auto at = [](int peer) { return static_cast<std::size_t>(peer); };
  const int self = world_ranks_[at(rank_)];
  CollectiveCall send, receive;
  if (out) send = send_call(out, ++sent_[at(out.peer)], world_ranks_[at(out.peer)]);
  if (in) receive = receive_call(in, ++received_[at(in.peer)], world_ranks_[at(in.peer)]);
  if (out) runtime_->record(events_[at(rank_)]->ready, stream);
  const Visit mine{send, static_cast<std::byte*>(out.tensor.data)};
  Visit sender;
  call_ = in ? receive : send;
  with_peers([&] { device::swap_records(host_, &mine, out.peer, &sender, in.peer, sizeof mine); });
  Receipt given{receive, nullptr}, got;
  if (in && match(receive, self, sender.call)) given.copied = copy_from(sender, in, stream);
  call_ = out ? send : receive;
  with_peers([&] { device::swap_records(host_, &given, in.peer, &got, out.peer, sizeof given); });
  if (out) check_match(send, self, got.call);
  if (in) check_match(receive, self, sender.call);
  if (out) runtime_->wait(stream, got.copied);
}

void DeviceLocalCommunicator::barrier() { host_.barrier(); }

std::unique_ptr<Communicator> DeviceLocalCommunicator::split(int color) {
  std::vector<int> colors(static_cast<std::size_t>(size_)), ranks;
  device::gather_records(host_, &color, colors.data(), sizeof color);
  for (std::size_t r = 0; r < colors.size(); ++r)
    if (colors[r] == color) ranks.push_back(world_ranks_[r]);
  std::unique_ptr<Communicator> host = host_.split(color);
  if (ranks.size() == 1) return device::make_device_self(runtime_);
  Communicator& host_of_group = *host;
  return std::make_unique<DeviceLocalCommunicator>(runtime_, std::move(ranks), host_of_group,
                                                   std::move(host));
}

void DeviceLocalCommunicator::abort(const std::string& why) noexcept { host_.abort(why); }

}  // namespace recollect::device_local
