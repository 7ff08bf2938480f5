// Windows of a rank's device memory that the other ranks of a group read and write directly (Communicator::share_memory).
// What a rank reads or writes there lies at the same place in its own memory, so that the layouts of all must be the same:
// they are, unless kernels want other workspaces, which is looked for. A window is there whatever is checkpointed, since
// sums have bits of their own in it.
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
  // `one_length`: of all batches. Of several, data ranks run one at a time each, with layouts that differ. The mesh must
  // outlive the windows, and so must the arena.
  RankWindows(const Mesh& mesh, bool one_length);
  ~RankWindows();
  RankWindows(const RankWindows&) = delete;
  RankWindows& operator=(const RankWindows&) = delete;

  // Collective, for each program that will run in the arena: windows for what tensor ranks and data ranks have collectives
  // for, and, if `gathers`, for the partitioned activations that tensor ranks gather. What is to be said of it.
  std::vector<Remark> open(const Program& program, const Arena& arena, bool gathers);

 private:
  struct Group {
    std::string_view axis;
    std::vector<StreamId> streams;  // of its collectives
    bool tried = false, opened = false;
  };
  bool alike(const Group& group, const Program& program) const;
  bool open(std::string_view axis, StreamId stream, const Arena& arena, Shared what);

  const Mesh& mesh_;
  const bool one_length_;
  Group tensor_{kTensorAxis, {StreamId::kCompute, StreamId::kCommunication}};
  Group data_{kDataAxis, {StreamId::kCommunication}};  // but for the sums of single numbers
  bool gathers_tried_ = false;
  std::vector<Communicator*> windows_;
};

}  // namespace recollect
