// How the processes of one run find their shared segment. Rank 0 creates it under a name derived from the run
// id, after removing what an earlier run may have left there. The others look until they find one whose
// creator lives. Rank 0 removes the name as soon as all have joined.
//
// A joiner may open the segment of an earlier run just before it is replaced. It notices, because that
// segment loses its name without ever becoming complete. Joiners never remove a name while the run may still
// come together, because it could be the new one.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "comm/local.h"
#include "comm/local/local_communicator.h"
#include "comm/local/rendezvous.h"
#include "engine/core/duration.h"

namespace recollect {
namespace local {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPollInterval = 1ms;

class Rendezvous {
 public:
  explicit Rendezvous(const LocalWorld& world)
      : world_(world), name_(segment_name(world.run_id)), deadline_(Clock::now() + world.timeout) {}

  std::shared_ptr<Segment> meet() { return world_.rank == 0 ? create() : find(); }

 private:
  std::shared_ptr<Segment> create();
  void wait_for_all(Segment& segment);
  std::shared_ptr<Segment> find();
  std::shared_ptr<Segment> try_open() const;
  void check_size(Segment& segment) const;
  bool claim(Segment& segment) const;
  bool wait_until_complete(const Segment& segment) const;
  void remove_name_of(const Segment& segment) const noexcept;
  bool is_late() const { return Clock::now() >= deadline_; }
  std::string run() const { return "run '" + world_.run_id + "'"; }

  const LocalWorld& world_;
  const std::string name_;
  const Clock::time_point deadline_;
};

struct NameGuard {
  const std::string& name;
  ~NameGuard() { ::shm_unlink(name.c_str()); }
};

std::shared_ptr<Segment> Rendezvous::create() {
  ::shm_unlink(name_.c_str());
  const int descriptor = ::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    const int reason = errno;
    if (reason == EEXIST)
      throw Error(ExitCode::kConfiguration, "two processes are rank 0 of " + run() + " on this node",
                  "give every run its own RECOLLECT_RUN_ID and every process its own rank");
    throw Error(ExitCode::kHostMemory,
                "making the shared segment " + name_ + ": " + std::generic_category().message(reason),
                "the ranks of one node need POSIX shared memory (/dev/shm)");
  }
  const NameGuard guard{name_};
  auto segment = Segment::make_shared(descriptor, world_.size, usable_chunk(world_.size, world_.chunk_bytes));
  claim(*segment);
  wait_for_all(*segment);
  segment->header().complete.store(1, std::memory_order_release);
  return segment;  // the guard removes the name: all ranks have the segment open
}

void Rendezvous::wait_for_all(Segment& segment) {
  auto next_look = Clock::now() + kLookInterval;
  while (true) {
    const bool look = Clock::now() >= next_look;
    std::vector<int> missing, dead;
    for (int r = 0; r < world_.size; ++r) {
      const RankState& state = segment.rank_state(segment.root(), r);
      if (state.membership.load(std::memory_order_acquire) != Membership::kJoined) {
        missing.push_back(r);
      } else if (look && !may_be_alive(state.process)) {
        dead.push_back(r);
      }
    }
    if (missing.empty()) return;
    std::string lost;
    if (!dead.empty()) {
      lost =
          "the process of " + name_ranks(dead) + " has ended while " + run() + " came together on this node";
    } else if (is_late()) {
      lost = name_ranks(missing) + " of " + run() + " did not join on this node within " +
             duration_text(world_.timeout);
    }
    if (segment.is_stopped()) lost = segment.stop_reason();
    if (!lost.empty()) {
      segment.stop(lost);
      throw Error(ExitCode::kPeerLost, lost,
                  "were all " + std::to_string(world_.size) + " processes started?");
    }
    if (look) next_look = Clock::now() + kLookInterval;
    std::this_thread::sleep_for(kPollInterval);
  }
}

std::shared_ptr<Segment> Rendezvous::find() {
  std::shared_ptr<Segment> stale;
  while (!is_late()) {
    auto segment = try_open();
    if (segment && may_be_alive(segment->header().creator)) {
      check_size(*segment);
      if (claim(*segment) && wait_until_complete(*segment)) return segment;
    } else if (segment) {
      stale = segment;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  if (stale) remove_name_of(*stale);
  throw Error(ExitCode::kPeerLost,
              "rank " + std::to_string(world_.rank) + " did not find rank 0 of " + run() +
                  " on this node within " + duration_text(world_.timeout),
              "was rank 0 started, on this node and with the same run id?");
}

void Rendezvous::check_size(Segment& segment) const {
  if (segment.header().size == world_.size) return;
  const std::string text = "rank 0 of " + run() + " expects " + std::to_string(segment.header().size) +
                           " ranks on this node, rank " + std::to_string(world_.rank) + " expects " +
                           std::to_string(world_.size);
  segment.stop(text);
  throw Error(ExitCode::kRanksDisagree, text, "start all ranks of a run with the same world size");
}

// Returns null while there is no finished segment under the name.
std::shared_ptr<Segment> Rendezvous::try_open() const {
  const int descriptor = ::shm_open(name_.c_str(), O_RDWR | O_CLOEXEC, 0);
  return descriptor < 0 ? nullptr : Segment::open_shared(descriptor);
}

// Enters this rank into the segment. Returns false if another process holds this rank in a segment that does
// not belong to this run.
bool Rendezvous::claim(Segment& segment) const {
  RankState& state = segment.rank_state(segment.root(), world_.rank);
  auto absent = Membership::kAbsent;
  if (state.membership.compare_exchange_strong(absent, Membership::kClaimed)) {
    state.process = this_process();
    state.membership.store(Membership::kJoined, std::memory_order_release);
    return true;
  }
  if (absent == Membership::kJoined && may_be_alive(state.process) && !(state.process == this_process()))
    throw Error(ExitCode::kConfiguration,
                "two processes are rank " + std::to_string(world_.rank) + " of " + run() + " on this node: " +
                    std::to_string(state.process.pid) + " and " + std::to_string(this_process().pid),
                "give every run its own RECOLLECT_RUN_ID and every process its own rank");
  return false;
}

// Returns false if the segment turns out to belong to an earlier run.
bool Rendezvous::wait_until_complete(const Segment& segment) const {
  auto next_look = Clock::now() + kLookInterval;
  while (segment.header().complete.load(std::memory_order_acquire) == 0) {
    if (segment.is_stopped())
      throw Error(ExitCode::kPeerLost, "joining " + run() + " on this node: " + segment.stop_reason());
    struct stat status {};
    const bool nameless = ::fstat(segment.descriptor(), &status) == 0 && status.st_nlink == 0;
    if (nameless && segment.header().complete.load(std::memory_order_acquire) == 0 && !segment.is_stopped())
      return false;
    if (Clock::now() >= next_look) {
      next_look = Clock::now() + kLookInterval;
      if (!may_be_alive(segment.header().creator)) {
        remove_name_of(segment);
        throw Error(ExitCode::kPeerLost,
                    "rank 0 of " + run() + " has ended while the ranks of this node joined");
      }
    }
    if (is_late()) {
      throw Error(ExitCode::kPeerLost, "the ranks of " + run() + " on this node did not all join within " +
                                           duration_text(world_.timeout));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

// Removes the name if it still refers to this segment.
void Rendezvous::remove_name_of(const Segment& segment) const noexcept {
  const int descriptor = ::shm_open(name_.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) return;
  struct stat named {
  }, ours{};
  const bool same = ::fstat(descriptor, &named) == 0 && ::fstat(segment.descriptor(), &ours) == 0 &&
                    named.st_ino == ours.st_ino;
  ::close(descriptor);
  if (same) ::shm_unlink(name_.c_str());
}

}  // namespace

// The name contains the user's number and the FNV-1a hash of the run id.
std::string segment_name(const std::string& run_id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : run_id) hash = (hash ^ c) * 0x100000001b3;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += kDigits[(hash >> shift) & 15];
  return "/recollect-" + std::to_string(::getuid()) + "-" + digits;
}

}  // namespace local

std::unique_ptr<Communicator> join_local_processes(const LocalWorld& world) {
  require(world.size >= 1 && world.rank >= 0 && world.rank < world.size,
          "rank " + std::to_string(world.rank) + " joins a node of " + std::to_string(world.size) + " ranks");
  if (world.size == 1) return make_self_communicator();
  if (world.run_id.empty())
    throw Error(ExitCode::kConfiguration,
                "there are " + std::to_string(world.size) +
                    " processes on this node, and nothing says by what they find each other",
                "set MASTER_ADDR and MASTER_PORT, as torchrun does, or RECOLLECT_RUN_ID to any text, the "
                "same for all "
                "processes of the run");
  auto segment = local::Rendezvous(world).meet();
  local::Region& root = segment->root();
  return std::make_unique<local::LocalCommunicator>(std::move(segment), root, world.rank, world.timeout);
}

}  // namespace recollect
