#include "engine/graph/graph.h"

#include <algorithm>

#include "engine/core/checked.h"
#include "engine/graph/op_def.h"

namespace recollect {

std::string_view name_of(Category category) {
  constexpr std::string_view names[] = {"parameters", "gradients",     "optimizer", "activations",
                                        "workspace",  "communication", "input",     "key/value cache"};
  return names[static_cast<int>(category)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view names[] = {"forward", "backward", "optimizer"};
  return names[static_cast<int>(phase)];
}

std::string_view name_of(MemorySpace space) {
  constexpr std::string_view names[] = {"device", "host", "disk"};
  return names[static_cast<int>(space)];
}

std::string_view name_of(StreamId stream) {
  constexpr std::string_view names[] = {"compute",        "communication", "gather", "device_to_host",
                                        "host_to_device", "disk",          "host"};
  return names[static_cast<int>(stream)];
}

std::string Attributes::to_string() const {
  std::string text;
  for (const auto& [name, value] : items_) {
    if (!text.empty()) text += ' ';
    text += name + '=';
    if (const auto* i = std::get_if<int64_t>(&value)) text += std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) text += std::to_string(*d);
    if (const auto* s = std::get_if<std::string>(&value)) text += *s;
  }
  return text;
}

const Value& OpView::in(int i) const {
  if (!has_input(i))
    throw Error(ExitCode::kInternal, op.name + ": input " + std::to_string(i) + " is absent");
  return graph.value(op.inputs[i]);
}

const Value& OpView::out(int i) const {
  if (i >= static_cast<int>(op.outputs.size()) || op.outputs[i] == kNone)
    throw Error(ExitCode::kInternal, op.name + ": output " + std::to_string(i) + " is absent");
  return graph.value(op.outputs[i]);
}

void OpRegistry::add(OpDef def) {
  require(!defs_.contains(def.name), "op kind '" + def.name + "' is registered twice");
  std::string name = def.name;
  defs_.emplace(std::move(name), std::make_unique<OpDef>(std::move(def)));
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto it = defs_.find(name);
  if (it == defs_.end()) throw Error(ExitCode::kInternal, "unknown op kind '" + std::string(name) + "'");
  return it->second.get();
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> list;
  for (const auto& [name, def] : defs_) list.push_back(def.get());
  return list;
}

namespace {

// Refuses sizes near 2^63: shapes hold signed sizes, and memory sizes are rounded up.
void check_size(const Value& value) {
  constexpr uint64_t kHalf = uint64_t{1} << 62;
  uint64_t bytes = size_of(value.dtype);
  for (int i = 0; i < value.shape.rank(); ++i)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(value.shape[i]), &bytes) || bytes > kHalf)
      refuse_size("the size of " + value.name + " " + value.shape.to_string());
}

// Returns true if both values may be members of one buffer.
bool alike(const Value& a, const Value& b) {
  const auto stays = [](const Value& v) { return v.persistent || v.producer == kNone; };
  return a.dtype == b.dtype && a.category == b.category && a.space == b.space && a.pooled == b.pooled &&
         stays(a) == stays(b) && b.space != MemorySpace::kDisk;
}

}  // namespace

ValueId Graph::add_value(Value value) {
  check_size(value);
  value.group = kNone;
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size()) - 1;
}

void Graph::infer_outputs(Op& op) {
  const std::vector<OutputSpec> specs = op.def->infer(OpView{*this, op});
  op.outputs.resize(specs.size(), kNone);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const OutputSpec& spec = specs[i];
    if (op.outputs[i] == kNone) {
      Value value{.name = spec.suffix.empty() ? op.name : op.name + "/" + spec.suffix,
                  .shape = spec.shape,
                  .dtype = spec.dtype,
                  .category = spec.category,
                  .placement = spec.placement,
                  .space = spec.space,
                  .layer = op.layer};
      op.outputs[i] = add_value(std::move(value));
    }
    const Value& value = values_.at(op.outputs[i]);
    if (value.shape != spec.shape || value.dtype != spec.dtype)
      throw Error(ExitCode::kInternal, op.name + " (" + op.def->name + "): output " + value.name + " is " +
                                           value.shape.to_string() + " " + std::string(name_of(value.dtype)) +
                                           ", the op makes " + spec.shape.to_string() + " " +
                                           std::string(name_of(spec.dtype)));
  }
}

OpId Graph::add_op(Op op) {
  const OpId id = static_cast<OpId>(ops_.size());
  infer_outputs(op);
  for (ValueId out : op.outputs) {
    Value& value = values_.at(out);
    require(value.producer == kNone || value.accumulator, value.name + " is written twice");
    if (value.producer == kNone) value.producer = id;
  }
  ops_.push_back(std::move(op));
  return id;
}

void Graph::set_ops(std::vector<Op> ops) {
  ops_ = std::move(ops);
  for (Value& value : values_) value.producer = kNone;
  for (OpId id : op_ids())
    for (ValueId out : ops_[id].outputs)
      if (out != kNone && values_[out].producer == kNone) values_[out].producer = id;
}

GroupId Graph::add_group(Group group) {
  const auto id = static_cast<GroupId>(groups_.size());
  require(!group.members.empty() && group.multiple > 0 && group.multiple % kAlignment == 0,
          group.name + ": a group has members, and ends on a boundary of " + std::to_string(kAlignment) +
              " bytes");
  require(group.rooms.empty() || group.rooms.size() == group.members.size(),
          group.name + ": there is not one room for each member");
  const Value first = value(group.members.front());
  group.offsets.clear();
  group.bytes = 0;
  for (ValueId v : group.members) {
    Value& member = value(v);
    require(member.group == kNone, member.name + " is in two groups: " + group.name + " and another");
    require(alike(first, member), group.name + ": " + member.name + " is of another kind than " + first.name);
    member.group = id;
    const std::size_t place = group.offsets.size();
    const uint64_t room = group.rooms.empty() ? member.bytes() : group.rooms[place];
    require(room >= member.bytes(), group.name + ": " + member.name + " does not fit its room");
    group.offsets.push_back(group.bytes);
    group.bytes = checked_sum(group.bytes, aligned(room), "the size of " + group.name);
  }
  const uint64_t rest = group.bytes % group.multiple;
  if (rest > 0) group.bytes = checked_sum(group.bytes, group.multiple - rest, "the size of " + group.name);
  groups_.push_back(std::move(group));
  return id;
}

std::size_t Graph::place_in_group(ValueId id) const {
  const std::vector<ValueId>& members = group(value(id).group).members;
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), id) - members.begin());
}

uint64_t Graph::room_of(ValueId id) const {
  if (value(id).group == kNone) return aligned(value(id).bytes());
  const Group& of = group(value(id).group);
  return aligned(of.rooms.empty() ? value(id).bytes() : of.rooms[place_in_group(id)]);
}

ValueId Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i].name == name) return static_cast<ValueId>(i);
  return kNone;
}

}  // namespace recollect
