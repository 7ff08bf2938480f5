#include "comm/device/progress_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <system_error>

namespace recollect::device {
namespace {

// The message that ranks exchange before they share memory.
struct Introduction {
  uint64_t node = 0;
  int64_t process = 0;
  int64_t descriptor = -1;  // of the shared memory; set by the first rank of a node
  int64_t mapped = 0;
};

std::vector<Introduction> introduce(Communicator& world, const Introduction& mine) {
  std::vector<Introduction> all(static_cast<std::size_t>(world.size()));
  gather_records(world, &mine, all.data(), sizeof mine);
  return all;
}

}  // namespace

struct alignas(64) ProgressBoard::Header {
  static constexpr std::size_t kReasonBytes = 1024;

  std::atomic<StopState> stop;
  char reason[kReasonBytes];
};

ProgressBoard::ProgressBoard(Communicator& world, uint64_t node)
    : rank_(world.rank()), place_(static_cast<std::size_t>(world.size()), -1) {
  find_place(world, node);
  RankState& mine = state(rank_);
  mine.process = local::this_process();
  world.barrier();  // no rank reads a line that its owner has not initialised
}

ProgressBoard::~ProgressBoard() { ::munmap(memory_, bytes_); }

// The first rank of a node makes the shared memory, and the others open its file descriptor through /proc. If
// one of them cannot, all ranks of the node use private memory, so that seeing is always mutual.
void ProgressBoard::find_place(Communicator& world, uint64_t node) {
  Introduction mine{node, ::getpid(), -1, 0};
  std::vector<Introduction> all = introduce(world, mine);
  const auto is_near = [&](const Introduction& other) { return other.node == mine.node; };
  seats_ = static_cast<int>(std::count_if(all.begin(), all.end(), is_near));
  const auto first = std::find_if(all.begin(), all.end(), is_near) - all.begin();
  bytes_ = sizeof(Header) + static_cast<std::size_t>(seats_) * sizeof(RankState);
  int made = -1;
  if (first == rank_) {
    made = ::memfd_create("recollect-progress", MFD_CLOEXEC);
    if (made < 0 || ::ftruncate(made, static_cast<off_t>(bytes_)) != 0)
      throw Error(ExitCode::kHostMemory,
                  "no shared memory for the board on which ranks show their progress: " +
                      std::generic_category().message(errno));
    mine.descriptor = made;
  }
  all = introduce(world, mine);
  const Introduction& maker = all[static_cast<std::size_t>(first)];
  const std::string path =
      "/proc/" + std::to_string(maker.process) + "/fd/" + std::to_string(maker.descriptor);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  mine.mapped = opened >= 0;
  all = introduce(world, mine);
  if (made >= 0) ::close(made);
  const bool shared = std::all_of(all.begin(), all.end(), [&](const Introduction& other) {
    return !is_near(other) || other.mapped != 0;
  });
  int place = 0;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (is_near(all[r]) && (shared || static_cast<int>(r) == rank_)) place_[r] = place++;
  map(shared ? opened : -1);
  if (opened >= 0) ::close(opened);
}

// New memory of either kind is zero, and zeros are a valid empty board.
void ProgressBoard::map(int descriptor) {
  const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory_ == MAP_FAILED)
    throw Error(ExitCode::kHostMemory, "mapping the board on which ranks show their progress: " +
                                           std::generic_category().message(errno));
}

ProgressBoard::RankState& ProgressBoard::state(int rank) const {
  auto* states = reinterpret_cast<RankState*>(static_cast<std::byte*>(memory_) + sizeof(Header));
  return states[place_[static_cast<std::size_t>(rank)]];
}

ProgressBoard::Line* ProgressBoard::line_of(int rank, uint64_t group) const noexcept {
  for (Line& line : state(rank).lines)
    if (line.group.load(std::memory_order_acquire) == group) return &line;
  return nullptr;
}

bool ProgressBoard::open(uint64_t group) noexcept {
  Line* line = line_of(rank_, 0);
  if (!line) return false;
  line->progress.store(0, std::memory_order_relaxed);
  line->group.store(group, std::memory_order_release);
  return true;
}

void ProgressBoard::close(uint64_t group) noexcept {
  if (Line* line = line_of(rank_, group)) line->group.store(0, std::memory_order_release);
}

void ProgressBoard::publish(uint64_t group, Progress progress) noexcept {
  if (Line* line = line_of(rank_, group))
    line->progress.store(uint64_t{progress.round} << 32 | progress.state, std::memory_order_release);
}

std::optional<Progress> ProgressBoard::progress(int rank, uint64_t group) const noexcept {
  const Line* line = sees(rank) ? line_of(rank, group) : nullptr;
  if (!line) return std::nullopt;
  const uint64_t value = line->progress.load(std::memory_order_acquire);
  return Progress{static_cast<uint32_t>(value >> 32), static_cast<uint32_t>(value)};
}

std::vector<int> ProgressBoard::waited_for_by(int rank) const {
  std::vector<int> ranks;
  if (!sees(rank)) return ranks;
  for (const Line& line : state(rank).lines) {
    const uint64_t group = line.group.load(std::memory_order_acquire);
    const auto mine = group != 0 ? progress(rank, group) : std::nullopt;
    if (!mine || !is_inside_call(mine->state)) continue;
    for (int other = 0; other < size(); ++other)
      if (const auto its = progress(other, group); its && *its < *mine) ranks.push_back(other);
  }
  return ranks;
}

void ProgressBoard::leave() noexcept { state(rank_).left.store(1, std::memory_order_release); }

bool ProgressBoard::has_left(int rank) const noexcept {
  return sees(rank) && state(rank).left.load(std::memory_order_acquire) != 0;
}

bool ProgressBoard::has_died(int rank) const {
  if (!sees(rank) || has_left(rank)) return false;
  const local::ProcessIdentity& process = state(rank).process;
  const bool dead = !(process == state(rank_).process) && !local::may_be_alive(process);
  return dead && !has_left(rank);  // it may have left just before it ended
}

void ProgressBoard::stop(const std::string& reason) noexcept {
  auto& header = *static_cast<Header*>(memory_);
  StopState running = StopState::kRunning;
  if (!header.stop.compare_exchange_strong(running, StopState::kWriting)) return;
  const std::size_t length = std::min(reason.size(), Header::kReasonBytes - 1);
  std::memcpy(header.reason, reason.data(), length);
  header.reason[length] = '\0';
  header.stop.store(StopState::kStopped, std::memory_order_release);
}

std::optional<std::string> ProgressBoard::stop_reason() const {
  const auto& header = *static_cast<const Header*>(memory_);
  if (header.stop.load(std::memory_order_acquire) != StopState::kStopped) return std::nullopt;
  return header.reason;
}

}  // namespace recollect::device
