// The progress board shows how far each rank of a node has come, readable by all other ranks: a rank that is
// stuck, stopped or dead is found by what it last wrote. The board lies in memory that the node's processes
// share and that has no file name, so nothing remains when they end. Ranks of other nodes, and of containers
// that see other processes, are not seen.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device/places.h"
#include "comm/local/process_identity.h"

namespace recollect::device {

// The position of a rank in the calls of one group. Later is greater.
struct Progress {
  uint32_t round = 0;  // how often all work on the streams had been completed
  uint32_t state = 0;  // 2k during call k, 2k + 1 after it; 0 before the first call of the round

  auto operator<=>(const Progress&) const = default;  // NOLINT(modernize-use-nullptr): of what this makes
};

inline constexpr bool is_inside_call(uint32_t state) { return state != 0 && state % 2 == 0; }

class ProgressBoard {
 public:
  static constexpr int kMaxGroups = 64;

  // Collective over `world`. Ranks with the same `node` share a board.
  explicit ProgressBoard(Communicator& world, uint64_t node = this_node());
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(place_.size()); }
  bool sees(int rank) const { return place_[static_cast<std::size_t>(rank)] >= 0; }

  // Opens this rank's line for a group. All ranks of the group use the same number for it, which is not 0.
  // Returns false if the board is full: that group's progress is then unknown.
  bool open(uint64_t group) noexcept;
  void close(uint64_t group) noexcept;
  void publish(uint64_t group, Progress progress) noexcept;
  // Returns what a rank last published; nothing if the rank is not seen or does not have the group.
  std::optional<Progress> progress(int rank, uint64_t group) const noexcept;
  // Returns the ranks for which `rank` waits: in each group whose call it is inside, the ranks with less
  // progress.
  std::vector<int> waited_for_by(int rank) const;

  // This rank has finished all of its work. Its lines stay readable.
  void leave() noexcept;
  bool has_left(int rank) const noexcept;
  bool has_died(int rank) const;  // it ended without leaving

  // Tells all visible ranks to stop, and why. Only the first reason is kept.
  void stop(const std::string& reason) noexcept;
  std::optional<std::string> stop_reason() const;

 private:
  struct Line {
    std::atomic<uint64_t> group;
    std::atomic<uint64_t> progress;
  };
  struct RankState {
    local::ProcessIdentity process;
    std::atomic<uint32_t> left;
    std::array<Line, kMaxGroups> lines;
  };
  enum class StopState : uint32_t { kRunning, kWriting, kStopped };
  struct Header;

  void map(int descriptor);
  void find_place(Communicator& world, uint64_t node);
  RankState& state(int rank) const;
  Line* line_of(int rank, uint64_t group) const noexcept;

  int rank_;
  std::vector<int> place_;  // position of each rank on this board; -1 if it is not seen
  int seats_ = 0;           // ranks on this board
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace recollect::device
