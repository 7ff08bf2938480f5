// Windows on a rank's device memory that the other ranks of a group read and write directly
// (Communicator::share_memory). A rank accesses them at the same offsets as its own memory, so that all ranks
// need the same layout. Layouts differ only if kernels need other workspaces; this is checked. Windows do not
// depend on checkpointing, because sums in windows have other bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpointing/switch_effects.h"
#include "engine/core/arena.h"
#include "engine/runtime/program.h"
#include "parallel/mesh.h"

namespace recollect {

class RankWindows {
 public:
  // `one_length`: all batches have the same length. With several lengths data ranks run different programs at
  // a time, whose layouts differ. The mesh and the arena must outlive the windows.
  RankWindows(const Mesh& mesh, bool one_length);
  ~RankWindows();
  RankWindows(const RankWindows&) = delete;
  RankWindows& operator=(const RankWindows&) = delete;

  // Collective. Call it for each program that will run in the arena. Opens windows for the collectives of
  // tensor ranks and data ranks and, if `gathers`, for the partitioned activations that tensor ranks gather.
  // Returns remarks for the user.
  std::vector<Remark> open(const Program& program, const Arena& arena, bool gathers);

 private:
  struct Group {
    std::string_view axis;
    std::vector<StreamId> streams;  // streams of its collectives
    bool tried = false, opened = false;
  };
  bool alike(const Group& group, const Program& program) const;
  bool open(std::string_view axis, StreamId stream, const Arena& arena, Shared what);

  const Mesh& mesh_;
  const bool one_length_;
  Group tensor_{kTensorAxis, {StreamId::kCompute, StreamId::kCommunication}};
  Group data_{kDataAxis, {StreamId::kCommunication}};  // except sums of single numbers
  bool gathers_tried_ = false;
  std::vector<Communicator*> windows_;
};

}  // namespace recollect
