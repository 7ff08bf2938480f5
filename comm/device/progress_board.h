// How far every rank of a node has come, where all others can read it: a rank that is stuck, stopped or dead
// says so by what it last wrote. Lies in memory that the processes of the node share and that no file names,
// so nothing is left when they end. Ranks of other nodes, and of containers that see other processes, are not
// seen.
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

// Where a rank is in the calls of one group. Later is greater.
struct Progress {
  uint32_t round = 0;  // how often everything that had been given to the streams was done
  uint32_t state =
      0;  // 2 k while call k is under way, 2 k + 1 once it is done; 0 before the first of the round

  auto operator<=>(const Progress&) const = default;  // NOLINT(modernize-use-nullptr): of what this makes
};

inline constexpr bool is_inside_call(uint32_t state) { return state != 0 && state % 2 == 0; }

class ProgressBoard {
 public:
  static constexpr int kMaxGroups = 64;

  // Collective over `world`. `node` is the same for ranks that share a board.
  explicit ProgressBoard(Communicator& world, uint64_t node = this_node());
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(place_.size()); }
  bool sees(int rank) const { return place_[static_cast<std::size_t>(rank)] >= 0; }

  // This rank's line for a group whose ranks all call it by the same number, which is not 0. False when the
  // board is full: such a group's progress is known to nobody.
  bool open(uint64_t group) noexcept;
  void close(uint64_t group) noexcept;
  void publish(uint64_t group, Progress progress) noexcept;
  // What a rank last published; nothing where it is not seen or does not know the group.
  std::optional<Progress> progress(int rank, uint64_t group) const noexcept;
  // For whom that rank waits: those behind it in the groups in whose calls it is.
  std::vector<int> waited_for_by(int rank) const;

  // This rank is done with everything that it was to do. Its groups stay readable.
  void leave() noexcept;
  bool has_left(int rank) const noexcept;
  bool has_died(int rank) const;  // without leaving

  // Tells all ranks that are seen why they must end. The first reason counts.
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
  std::vector<int> place_;  // of every rank on this board; -1 where it is not seen
  int seats_ = 0;           // ranks on this board
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace recollect::device
