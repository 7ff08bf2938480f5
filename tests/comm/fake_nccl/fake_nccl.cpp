// A stand-in for NCCL that works on host memory, between threads and between processes. Like NCCL it never
// waits inside a call: making and splitting communicators goes on while it is asked for their state, and a
// collective occupies its stream until all ranks have come or its communicator is aborted. Sums are in rank
// order. So do sends and receives, which are done in groups, all of one group at once.
//
// A communicator that prefers copy engines gathers without a kernel, and has NCCL's rules for that: it fails where its
// latest kernel was launched in another capture, or outside of this one; and a single gather that was not captured
// before the first one that is makes that one begin before the other ranks have come, which is a failure here.
//
// Ranks meet in a shared-memory object that loses its name once all have come.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/api.h"
#include "tests/comm/fake_nccl/control.h"
#include "tests/comm/fake_nccl/numbers.h"
#include "tests/comm/fake_nccl/windows.h"
#include "tests/comm/stream_abi.h"

using namespace recollect::nccl;
using fake_nccl::bytes_of;
using fake_nccl::reduce;

extern "C" FakeNcclControl fake_nccl_control;
FakeNcclControl fake_nccl_control;

namespace {

constexpr int kMostRanks = 8;
constexpr std::size_t kSlotBytes = 1 << 20;
constexpr std::size_t kParcelBytes = 64 << 10;
constexpr int kSplits = 64;

struct RankArea {
  std::atomic<uint64_t> posted, done;    // collectives
  std::atomic<int64_t> splits[kSplits];  // 1 + what the rank wants: (color + 1) << 32 | key, by split
  uint64_t places
      [2];  // that a symmetric kernel takes for the other ranks' too; written before `posted`, as the slots
  alignas(64) std::byte slots[2][kSlotBytes];
  // To each rank, piece by piece.
  std::atomic<uint64_t> given[kMostRanks], taken[kMostRanks];
  alignas(64) std::byte parcels[kMostRanks][kParcelBytes];
};

struct Meeting {
  std::atomic<int> joined;
  RankArea ranks[kMostRanks];
};

struct State {
  int rank = 0, size = 1, world_rank = 0;
  std::string name;
  Meeting* meeting = nullptr;
  Config config;
  std::atomic<bool> aborted = false;
  std::atomic<Result> async = Result::kSuccess;
  std::atomic<uint64_t> sequence = 0;  // of the latest collective that has begun
  int polls = 0;
  uint64_t kernel_in = ~uint64_t{0};  // the capture of its latest kernel
  int uncaptured_gathers = 0;         // by copy engines, before any that was captured
  bool has_captured = false;
  fake_nccl::Window window;
  // What goes on in the background: connecting, or a split whose result is still to be delivered.
  bool connecting = false, finalizing = false;
  int split = -1;
  int splits = 0;
  int64_t wish = 0;
  void** split_result = nullptr;
  Config split_config;
  Result pending = Result::kSuccess;

  ~State() {
    if (meeting) ::munmap(meeting, sizeof(Meeting));
  }
};

struct Handle {
  std::shared_ptr<State> state;
};

FakeNcclControl& control() { return fake_nccl_control; }
State& of(Comm comm) { return *reinterpret_cast<Handle*>(comm)->state; }
std::shared_ptr<State> share(Comm comm) { return reinterpret_cast<Handle*>(comm)->state; }

Comm connect(const std::string& name, int rank, int size, int world_rank, const Config& config) {
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Meeting)) != 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return nullptr;
  auto state = std::make_shared<State>();
  state->rank = rank;
  state->size = size;
  state->world_rank = world_rank;
  state->name = name;
  state->meeting = static_cast<Meeting*>(memory);
  state->config = config;
  state->connecting = true;
  control().last_blocking = config.blocking;
  control().last_max_ctas = config.max_ctas;
  if (state->meeting->joined.fetch_add(1) + 1 == size) ::shm_unlink(name.c_str());
  return reinterpret_cast<Comm>(new Handle{state});
}

// The split is done when all ranks have said what they want.
Result deliver_split(State& parent) {
  std::vector<std::pair<int64_t, int>> members;
  for (int r = 0; r < parent.size; ++r) {
    const int64_t wish = parent.meeting->ranks[r].splits[parent.split].load();
    if (wish == 0) return Result::kInProgress;
    if (wish >> 32 == parent.wish >> 32) members.push_back({wish, r});
  }
  if (control().split_never) return Result::kInProgress;
  std::sort(members.begin(), members.end());
  const int64_t color = parent.wish >> 32;
  const auto me = std::find(members.begin(), members.end(), std::pair(parent.wish, parent.rank));
  *parent.split_result = nullptr;
  if (color > 0)  // not kNoColor
    *parent.split_result =
        connect(parent.name + "-" + std::to_string(parent.split) + "." + std::to_string(color),
                static_cast<int>(me - members.begin()), static_cast<int>(members.size()), parent.world_rank,
                parent.split_config);
  parent.split = -1;
  return Result::kSuccess;
}

Result progress(State& state) {
  if (state.async != Result::kSuccess) return state.async;
  if (state.polls > 0) {
    --state.polls;
    return Result::kInProgress;
  }
  if (state.connecting) {
    if (control().init_never || state.meeting->joined < state.size) return Result::kInProgress;
    state.connecting = false;
  }
  if (state.finalizing && control().finalize_never) return Result::kInProgress;
  if (state.split >= 0) return deliver_split(state);
  return std::exchange(state.pending, Result::kSuccess);
}

bool all_at(const State& state, std::atomic<uint64_t> RankArea::*what, uint64_t number) {
  for (int r = 0; r < state.size; ++r)
    if ((state.meeting->ranks[r].*what).load() < number) return false;
  return true;
}

// Numbered when it begins. A slot is written again when all have read what was in it, two collectives ago.
class Collective final : public recollect::test::StreamJob {
 public:
  using Finish = std::function<void(const std::vector<const std::byte*>& parts)>;
  Collective(std::shared_ptr<State> state, const fake_nccl::Call& call, uint64_t place, Finish finish)
      : state_(std::move(state)), call_(call), place_(place), finish_(std::move(finish)) {}

  bool step(bool first) override {
    State& state = *state_;
    if (first) number_ = ++state.sequence, posted_ = false;
    if (state.aborted) return true;
    if (control().async_rank == state.world_rank) {
      state.async = static_cast<Result>(control().fail_result.load());
      return false;
    }
    RankArea& mine = state.meeting->ranks[state.rank];
    std::byte* const slot = mine.slots[number_ % 2];
    if (!posted_ && number_ > 2 && !all_at(state, &RankArea::done, number_ - 2)) return false;
    if (!std::exchange(posted_, true)) {
      std::memcpy(slot, call_.in, call_.in_bytes);
      mine.places[number_ % 2] = place_;
      mine.posted.store(number_);
    }
    if (!all_at(state, &RankArea::posted, number_)) return false;
    std::vector<const std::byte*> parts;
    for (int r = 0; r < state.size; ++r) {
      const RankArea& rank = state.meeting->ranks[r];
      parts.push_back(rank.slots[number_ % 2]);
      if (rank.places[number_ % 2] != place_)
        state.async = Result::kInternalError;  // elsewhere in its window
    }
    if (state.async != Result::kSuccess) return false;
    finish_(parts);
    mine.done.store(number_);
    return true;
  }

 private:
  const std::shared_ptr<State> state_;
  const fake_nccl::Call call_;
  const uint64_t place_;
  const Finish finish_;
  uint64_t number_ = 0;
  bool posted_ = false;
};

void put_on(void* stream, std::unique_ptr<recollect::test::StreamJob> job) {
  auto* const on = static_cast<recollect::test::StreamAbi*>(stream);
  on->enqueue_job(on, std::move(job));
}

Result enqueue(Comm comm, void* stream, const fake_nccl::Call& call, Collective::Finish finish) {
  State& state = of(comm);
  if (control().fail_rank == state.world_rank) return static_cast<Result>(control().fail_result.load());
  if (state.connecting || state.split >= 0 || call.in_bytes > kSlotBytes) return Result::kInvalidUsage;
  const bool copies = state.config.cta_policy == kZeroCtaPolicy;
  const uint64_t place = copies ? 0 : symmetric_place(state.window, call);
  if (place > 0) ++(control().*call.symmetric);
  put_on(stream, std::make_unique<Collective>(share(comm), call, place, std::move(finish)));
  state.polls = control().polls;
  return state.polls > 0 ? Result::kInProgress : Result::kSuccess;
}

struct Parcel {
  bool outward;
  std::byte* data;
  std::size_t left;
  int peer;
};

// The group that a thread is making.
struct OpenGroup {
  int depth = 0;
  Comm comm = nullptr;
  void* stream = nullptr;
  std::vector<Parcel> parcels;
};

OpenGroup& open_group() {
  static thread_local OpenGroup group;
  return group;
}

// One piece, if the other side is ready for it or has one ready; an empty parcel is one empty piece. True
// when the whole has been passed.
bool move_piece(State& state, Parcel& parcel, uint64_t& unanswered) {
  RankArea& sender = state.meeting->ranks[parcel.outward ? state.rank : parcel.peer];
  const int to = parcel.outward ? parcel.peer : state.rank;
  const std::size_t piece = std::min(parcel.left, kParcelBytes);
  if (parcel.outward && unanswered > 0) return parcel.left == 0 && sender.taken[to].load() >= unanswered;
  if (parcel.outward) {
    if (sender.given[to].load() != sender.taken[to].load()) return false;
    if (piece > 0) std::memcpy(sender.parcels[to], parcel.data, piece);
    const uint64_t number = sender.given[to].fetch_add(1) + 1;
    if (parcel.left == piece) unanswered = number;
  } else {
    if (sender.given[to].load() == sender.taken[to].load()) return false;
    if (piece > 0) std::memcpy(parcel.data, sender.parcels[to], piece);
    sender.taken[to].fetch_add(1);
  }
  parcel.data += piece;
  parcel.left -= piece;
  return !parcel.outward && parcel.left == 0;
}

class Pairs final : public recollect::test::StreamJob {
 public:
  Pairs(std::shared_ptr<State> state, std::vector<Parcel> parcels)
      : state_(std::move(state)), parcels_(std::move(parcels)) {}

  bool step(bool first) override {
    if (first) {
      left_ = parcels_;
      unanswered_.assign(left_.size(), 0);
      done_.assign(left_.size(), false);
    }
    if (state_->aborted) return true;
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (!done_[i]) done_[i] = move_piece(*state_, left_[i], unanswered_[i]);
    return std::find(done_.begin(), done_.end(), false) == done_.end();
  }

 private:
  const std::shared_ptr<State> state_;
  const std::vector<Parcel> parcels_;
  std::vector<Parcel> left_;
  std::vector<uint64_t> unanswered_;
  std::vector<bool> done_;
};

Result add_parcel(Comm comm, void* stream, const Parcel& parcel) {
  OpenGroup& group = open_group();
  if (group.depth == 0 || parcel.peer < 0 || parcel.peer >= of(comm).size) return Result::kInvalidUsage;
  group.comm = comm;
  group.stream = stream;
  group.parcels.push_back(parcel);
  return Result::kSuccess;
}

// Before a call is enqueued: what it is for a communicator that prefers copy engines.
Result note_launch(State& state, bool gather) {
  if (state.config.cta_policy != kZeroCtaPolicy) return Result::kSuccess;
  const uint64_t capture = control().capture;
  if (!gather) {
    ++control().kernels_beside;
    state.kernel_in = capture;
    return Result::kSuccess;
  }
  ++control().gathers_by_copy;
  if (state.kernel_in != capture) return Result::kUnhandledCudaError;
  if (capture != 0 && !state.has_captured && state.uncaptured_gathers == 1) return Result::kInternalError;
  state.has_captured |= capture != 0;
  state.uncaptured_gathers += capture == 0;
  return Result::kSuccess;
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  *version = control().version;
  return Result::kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> made{0};
  std::snprintf(id->internal, sizeof id->internal, "/fake-nccl-%d-%d", ::getpid(), made++);
  return static_cast<Result>(control().unique_id_result.load());
}

Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  if (ranks > kMostRanks || config->size != sizeof(Config)) return Result::kInvalidArgument;
  *comm = connect(id.internal, rank, ranks, rank, *config);
  return *comm ? Result::kInProgress : Result::kSystemError;
}

Result ncclCommSplit(Comm comm, int color, int key, Comm* made, Config* config) {
  State& parent = of(comm);
  if (parent.split >= 0 || parent.splits == kSplits) return Result::kInvalidUsage;
  parent.split = parent.splits++;
  parent.wish = (static_cast<int64_t>(color) + 1) << 32 | (key + 1);
  parent.split_result = reinterpret_cast<void**>(made);
  parent.split_config = *config;
  parent.meeting->ranks[parent.rank].splits[parent.split].store(parent.wish);
  return Result::kSuccess;  // as NCCL says of one that has only been begun; `made` is written when it is done
}

Result ncclCommGetAsyncError(Comm comm, Result* state) {
  *state = progress(of(comm));
  return Result::kSuccess;
}

Result ncclCommFinalize(Comm comm) {
  ++control().finalizes;
  of(comm).finalizing = true;
  return Result::kInProgress;
}

Result ncclCommDestroy(Comm comm) {
  ++control().destroys;
  delete reinterpret_cast<Handle*>(comm);
  return Result::kSuccess;
}

Result ncclCommAbort(Comm comm) {
  ++control().aborts;
  State& state = of(comm);
  state.aborted = true;
  if (state.connecting) ::shm_unlink(state.name.c_str());
  delete reinterpret_cast<Handle*>(comm);
  return Result::kSuccess;
}

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::kRemoteError:
      return "remote process exited or there was a network error";
    case Result::kUnhandledCudaError:
      return "unhandled cuda error";
    case Result::kInvalidUsage:
      return "invalid usage";
    default:
      return "some error";
  }
}

const char* ncclGetLastError(Comm) {
  return control().fail_result == static_cast<int>(Result::kUnhandledCudaError)
             ? "Cuda failure 2 'out of memory'"
             : "a detail";
}

Result ncclAllReduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm,
                     void* stream) {
  if (const Result result = note_launch(of(comm), false); result != Result::kSuccess) return result;
  const std::size_t bytes = bytes_of(count, type);
  return enqueue(comm, stream, {&FakeNcclControl::symmetric_sums, in, bytes, out, bytes, type, op},
                 [=](const std::vector<const std::byte*>& parts) { reduce(type, op, parts, 0, out, count); });
}

Result ncclAllGather(const void* in, void* out, std::size_t count, DataType type, Comm comm, void* stream) {
  State& state = of(comm);
  if (const Result result = note_launch(state, true); result != Result::kSuccess) return result;
  const std::size_t bytes = bytes_of(count, type), all = bytes * static_cast<std::size_t>(state.size);
  return enqueue(comm, stream, {&FakeNcclControl::symmetric_gathers, in, bytes, out, all, type},
                 [=](const std::vector<const std::byte*>& parts) {
                   auto* to = static_cast<std::byte*>(out);
                   for (std::size_t r = 0; r < parts.size(); ++r)
                     std::memcpy(to + r * bytes, parts[r], bytes);
                 });
}

Result ncclReduceScatter(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm,
                         void* stream) {
  const State& state = of(comm);
  const std::size_t bytes = bytes_of(count, type), all = bytes * static_cast<std::size_t>(state.size);
  const std::size_t offset = static_cast<std::size_t>(state.rank) * bytes;
  return enqueue(
      comm, stream, {&FakeNcclControl::symmetric_scatters, in, all, out, bytes, type, op},
      [=](const std::vector<const std::byte*>& parts) { reduce(type, op, parts, offset, out, count); });
}

Result ncclBroadcast(const void* in, void* out, std::size_t count, DataType type, int root, Comm comm,
                     void* stream) {
  const std::size_t bytes = bytes_of(count, type);
  return enqueue(comm, stream, {nullptr, in, bytes, out, bytes, type},
                 [=](const std::vector<const std::byte*>& parts) {
                   std::memcpy(out, parts[static_cast<std::size_t>(root)], bytes);
                 });
}

Result ncclSend(const void* data, std::size_t count, DataType type, int to, Comm comm, void* stream) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
  return add_parcel(comm, stream, {true, bytes, bytes_of(count, type), to});
}

Result ncclRecv(void* data, std::size_t count, DataType type, int from, Comm comm, void* stream) {
  auto* bytes = static_cast<std::byte*>(data);
  return add_parcel(comm, stream, {false, bytes, bytes_of(count, type), from});
}

Result ncclGroupStart() {
  ++open_group().depth;
  return Result::kSuccess;
}

Result ncclGroupEnd() {
  OpenGroup& group = open_group();
  if (--group.depth > 0) return Result::kSuccess;
  const OpenGroup made = std::exchange(group, {});
  if (!made.comm) return Result::kSuccess;
  State& state = of(made.comm);
  if (control().fail_rank == state.world_rank) return static_cast<Result>(control().fail_result.load());
  put_on(made.stream, std::make_unique<Pairs>(share(made.comm), made.parcels));
  state.polls = control().polls;
  return state.polls > 0 ? Result::kInProgress : Result::kSuccess;
}

Result ncclCommWindowRegister(Comm comm, void* memory, std::size_t bytes, Window* window, int flags) {
  if (flags != kSymmetricWindow) return Result::kInvalidArgument;
  State& state = of(comm);
  state.pending = static_cast<Result>(control().window_result.load());
  state.polls = 2;
  if (state.pending == Result::kSuccess) {
    *window = static_cast<Window>(memory);
    const auto* begin = static_cast<const std::byte*>(memory);
    state.window = {begin, begin + bytes};
    ++control().windows;
  }
  return Result::kInProgress;
}

Result ncclCommWindowDeregister(Comm comm, Window window) {
  --control().windows;
  const bool is_gone = ::msync(window, 1, MS_ASYNC) != 0 && errno == ENOMEM;
  const bool is_used = share(comm).use_count() > 2;  // by calls that are enqueued or recorded
  if (is_gone || is_used) ++control().spoilt_windows;
  return Result::kSuccess;
}

Result ncclCommMemStats(Comm, int, uint64_t* bytes) {
  *bytes = control().memory;
  return Result::kSuccess;
}

}  // extern "C"
