#include "comm/mpi/mpi_communicator.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>

#include "comm/mpi.h"
#include "comm/reduction.h"

namespace recollect::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Of one rank's share in staging memory, for few ranks; more ranks share kStagingBytes.
constexpr std::size_t kLargestShare = 1 << 20;
constexpr std::size_t kStagingBytes = 16 << 20;
constexpr std::size_t kSmallestShare = 64 << 10;
// MPI counts in int; longer tensors go in several messages.
constexpr std::size_t kLargestMessage = 256 << 20;
constexpr std::size_t kCacheLine = 64;
constexpr int kEagerPolls = 4000;

std::size_t share_for(int size) {
  const std::size_t even = kStagingBytes / static_cast<std::size_t>(size) / kCacheLine * kCacheLine;
  return std::clamp(even, kSmallestShare, kLargestShare);
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

std::vector<int> world_ranks(MPI_Comm handle, int size) {
  std::vector<int> mine(size), world(size);
  std::iota(mine.begin(), mine.end(), 0);
  MPI_Group group, everybody;
  MPI_Comm_group(handle, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &everybody);
  MPI_Group_translate_ranks(group, size, mine.data(), everybody, world.data());
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  return world;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm handle, Settings settings)
    : handle_(handle), settings_(std::move(settings)) {
  MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(handle_, &rank_);
  MPI_Comm_size(handle_, &size_);
  share_bytes_ = share_for(size_);
  staging_.resize(mpi_staging_bytes(size_));
  requests_.reserve(2 * static_cast<std::size_t>(size_));
  peers_.reserve(2 * static_cast<std::size_t>(size_));
  finished_.resize(2 * static_cast<std::size_t>(size_));
  parts_.resize(size_);
  calls_.resize(size_);
  names_ = world_ranks(handle_, size_);
}

// Freeing is collective, so it is not for a rank that has failed or is on its way out with an Error.
MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > 0) settings_.failed->store(true);
  if (!settings_.failed->load()) MPI_Comm_free(&handle_);
}

void MpiCommunicator::fail(const std::string& what) {
  broken_ = true;
  settings_.failed->store(true);
  throw Error(ExitCode::kPeerLost, call_.name() + " of rank " + std::to_string(names_[rank_]) + ": " + what,
              "look for the first error among the other ranks' messages");
}

void MpiCommunicator::check(int status) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(std::string("MPI says: ") + text);
}

void MpiCommunicator::send(const void* data, std::size_t bytes, int to, Tag tag) {
  if (bytes == 0) return;
  peers_.push_back(to);
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, handle_, &requests_.emplace_back()));
}

void MpiCommunicator::receive(void* data, std::size_t bytes, int from, Tag tag) {
  if (bytes == 0) return;
  peers_.push_back(from);
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, handle_, &requests_.emplace_back()));
}

// Lets MPI work; true when nothing is under way any more.
bool MpiCommunicator::progress() {
  int count = 0;
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                     MPI_STATUSES_IGNORE));
  return std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
}

// More ranks than cores is normal, so waiting yields, and after a while sleeps between looks.
void MpiCommunicator::wait_for_all() {
  const auto deadline = Clock::now() + settings_.timeout;
  for (int polls = 0; !progress(); ++polls) {
    if (polls < kEagerPolls) {
      ::sched_yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (settings_.failed->load()) fail("this process has given up");
    if (Clock::now() < deadline) continue;
    std::vector<int> late;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const bool open = requests_[i] != MPI_REQUEST_NULL;
      const int name = names_[peers_[i]];
      if (open && std::find(late.begin(), late.end(), name) == late.end()) late.push_back(name);
    }
    std::sort(late.begin(), late.end());
    fail(name_ranks(late) + " did not come within " + std::to_string(settings_.timeout.count()) + " ms");
  }
  requests_.clear();
  peers_.clear();
}

// Everybody's `bytes` to everybody, in rank order.
void MpiCommunicator::exchange(const void* mine, void* all, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(all);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) receive(to + static_cast<std::size_t>(r) * bytes, bytes, r, kAgreement);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) send(mine, bytes, r, kAgreement);
  copy_bytes(to + static_cast<std::size_t>(rank_) * bytes, mine, bytes);
  wait_for_all();
}

// Also a barrier: nobody leaves before everybody has come.
void MpiCommunicator::start(CollectiveCall call) {
  if (broken_ || settings_.failed->load()) fail("an earlier collective of this process failed");
  call.sequence = call_.sequence + 1;
  call_ = call;
  exchange(&call_, calls_.data(), sizeof call_);
  try {
    check_agreement(calls_, names_);
  } catch (const Error&) {
    broken_ = true;
    settings_.failed->store(true);
    throw;
  }
}

void MpiCommunicator::barrier() { start({.kind = CollectiveKind::kBarrier}); }

void MpiCommunicator::all_reduce(const Tensor& tensor, ReduceOp op, void*) {
  start(all_reduce_call(tensor, op));
  const std::size_t width = size_of(tensor.dtype);
  const auto share = static_cast<int64_t>(share_bytes_ / width);
  auto* data = static_cast<std::byte*>(tensor.data);
  for (int64_t begin = 0; begin < tensor.elements(); begin += share * size_) {
    const int64_t count = std::min(share * size_, tensor.elements() - begin);
    const auto edge = [&](int r) { return static_cast<std::size_t>(begin + count * r / size_) * width; };
    const auto bytes = [&](int r) { return edge(r + 1) - edge(r); };
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive(staging(r), bytes(rank_), r, kPayload);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(data + edge(r), bytes(r), r, kPayload);
    for (int r = 0; r < size_; ++r) parts_[r] = r == rank_ ? data + edge(r) : staging(r);
    wait_for_all();
    reduce_parts(tensor.dtype, op, parts_.data(), size_, data + edge(rank_),
                 static_cast<int64_t>(bytes(rank_) / width));
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive(data + edge(r), bytes(r), r, kPayload);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(data + edge(rank_), bytes(rank_), r, kPayload);
    wait_for_all();
  }
}

void MpiCommunicator::all_gather(const Tensor& in, const Tensor& out, void*) {
  start(all_gather_call(in, out, size_));
  const std::size_t part = in.bytes();
  const auto* from = static_cast<const std::byte*>(in.data);
  auto* to = static_cast<std::byte*>(out.data);
  copy_bytes(to + static_cast<std::size_t>(rank_) * part, from, part);
  const std::byte* mine = to + static_cast<std::size_t>(rank_) * part;
  for (std::size_t begin = 0; begin < part; begin += kLargestMessage) {
    const std::size_t bytes = std::min(kLargestMessage, part - begin);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive(to + static_cast<std::size_t>(r) * part + begin, bytes, r, kPayload);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(mine + begin, bytes, r, kPayload);
    wait_for_all();
  }
}

void MpiCommunicator::reduce_scatter(const Tensor& in, const Tensor& out, void*) {
  start(reduce_scatter_call(in, out, size_));
  const std::size_t width = size_of(in.dtype);
  const auto share = static_cast<int64_t>(share_bytes_ / width);
  const auto* from = static_cast<const std::byte*>(in.data);
  const auto piece = [&](int r, int64_t begin) {
    return from + static_cast<std::size_t>(r * out.elements() + begin) * width;
  };
  for (int64_t begin = 0; begin < out.elements(); begin += share) {
    const int64_t count = std::min(share, out.elements() - begin);
    const std::size_t bytes = static_cast<std::size_t>(count) * width;
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive(staging(r), bytes, r, kPayload);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(piece(r, begin), bytes, r, kPayload);
    for (int r = 0; r < size_; ++r) parts_[r] = r == rank_ ? piece(r, begin) : staging(r);
    wait_for_all();
    reduce_parts(in.dtype, ReduceOp::kSum, parts_.data(), size_,
                 static_cast<std::byte*>(out.data) + static_cast<std::size_t>(begin) * width, count);
  }
}

void MpiCommunicator::broadcast(const Tensor& tensor, int root, void*) {
  start(broadcast_call(tensor, root, size_));
  auto* data = static_cast<std::byte*>(tensor.data);
  for (std::size_t begin = 0; begin < tensor.bytes(); begin += kLargestMessage) {
    const std::size_t bytes = std::min(kLargestMessage, tensor.bytes() - begin);
    if (rank_ != root) {
      receive(data + begin, bytes, root, kPayload);
    } else {
      for (int r = 0; r < size_; ++r)
        if (r != rank_) send(data + begin, bytes, r, kPayload);
    }
    wait_for_all();
  }
}

// MPI makes the group; the calls before it see to it that everybody has come, so that it cannot wait for
// long.
std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  start({.kind = CollectiveKind::kSplit});
  std::vector<int> colors(size_);
  exchange(&color, colors.data(), sizeof color);
  // MPI's colours are not negative: the number of the first rank of that colour is as good.
  const auto first = std::find(colors.begin(), colors.end(), color) - colors.begin();
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_split(handle_, static_cast<int>(first), rank_, &made));
  if (std::count(colors.begin(), colors.end(), color) == 1) {
    MPI_Comm_free(&made);
    return make_self_communicator();
  }
  return std::make_unique<MpiCommunicator>(made, settings_);
}

void MpiCommunicator::abort(const std::string&) noexcept { settings_.failed->store(true); }

}  // namespace recollect::mpi

std::size_t recollect::mpi_staging_bytes(int size) {
  return size == 1 ? 0 : mpi::share_for(size) * static_cast<std::size_t>(size);
}
