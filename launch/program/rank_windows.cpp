#include "launch/program/rank_windows.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/hash.h"

namespace recollect {

namespace {

struct Collective {
  const char *begins, *called;  // prefix of op kinds, and their name
};

constexpr std::array kCollectives = {
    Collective{"all_reduce", "all-reduces"}, Collective{"reduce_scatter", "reduce-scatters"},
    Collective{"all_gather", "all-gathers"}, Collective{"gather_", "all-gathers"}};

// "all-reduces, reduce-scatters and all-gathers" on an axis and its streams; empty if the program has none.
std::string collectives_of(const Graph& graph, std::string_view axis, const std::vector<StreamId>& streams) {
  std::set<std::string_view> there;
  for (const Op& op : graph.ops()) {
    if (op.def->unit != Unit::kCollective || !op.attributes.has("axis") ||
        op.attributes.text("axis") != axis ||
        std::find(streams.begin(), streams.end(), op.stream) == streams.end())
      continue;
    for (const auto& [begins, called] : kCollectives)
      if (op.def->name.starts_with(begins)) there.insert(called);
  }
  std::string text;
  for (const char* called : {"all-reduces", "reduce-scatters", "all-gathers"}) {
    if (there.erase(called) == 0) continue;
    text += (text.empty() ? "" : there.empty() ? " and " : ", ") + std::string(called);
  }
  return text;
}

// A hash of the offsets that must be equal on all ranks. If the axis shards a value, the shards of different
// ranks may have different offsets in it, because no other rank accesses them.
uint64_t hash_of_places(const Program& program, bool parts) {
  std::vector<uint64_t> places;
  for (const ValueId v : program.graph.value_ids())
    if (parts || program.graph.value(v).part_of == kNone) places.push_back(program.layout.value_offsets[v]);
  for (const auto* list : {&program.layout.workspace_offsets, &program.workspaces})
    places.insert(places.end(), list->begin(), list->end());
  return hash_bytes(places.data(), places.size() * sizeof(uint64_t));
}

bool same_on_all(uint64_t hash, Communicator& ranks) {
  const auto mine = static_cast<int64_t>(hash >> 1);
  int64_t extremes[] = {mine, -mine};
  ranks.all_reduce({extremes, {2}, DType::kI64}, ReduceOp::kMax);
  return extremes[0] == -extremes[1];
}

}  // namespace

RankWindows::RankWindows(const Mesh& mesh, bool one_length) : mesh_(mesh), one_length_(one_length) {}

RankWindows::~RankWindows() {
  for (Communicator* window : windows_) window->unshare_memory();
}

bool RankWindows::alike(const Group& group, const Program& program) const {
  const bool data = group.axis == kDataAxis;
  return (!data || one_length_) &&
         same_on_all(hash_of_places(program, !data), mesh_.host_communicator(group.axis));
}

bool RankWindows::open(std::string_view axis, StreamId stream, const Arena& arena, Shared what) {
  Communicator& group = mesh_.communicator(axis, stream);
  const bool opened = group.share_memory(arena.at(0), arena.bytes(), what);
  if (opened) windows_.push_back(&group);
  return opened;
}

std::vector<Remark> RankWindows::open(const Program& program, const Arena& arena, bool gathers) {
  std::vector<Remark> remarks;
  for (Group* group : {&tensor_, &data_}) {
    if (mesh_.size(group->axis) == 1) continue;
    const std::string collectives = collectives_of(program.graph, group->axis, group->streams);
    if (collectives.empty()) continue;
    const bool same = alike(*group, program);
    require(same || !group->opened,
            "ranks have their values at the same places, in every program or in none");
    if (!std::exchange(group->tried, true) && same) {
      group->opened = true;
      for (const StreamId stream : group->streams)
        group->opened &= open(group->axis, stream, arena, Shared::kCollectives);
    }
    if (group == &tensor_ && same && gathers && !std::exchange(gathers_tried_, true))
      open(group->axis, StreamId::kGather, arena, Shared::kGathers);
    const std::string on = " windows on each other's memory";
    remarks.push_back(
        {"parallelism." + std::string(group->axis) + "_parallel_size",
         collectives + (group->opened ? " go through" + on + ", where NCCL finds the GPUs linked for it"
                                      : " go the ordinary way, without" + on)});
  }
  return remarks;
}

}  // namespace recollect
