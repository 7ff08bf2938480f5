#include "launch/cli/explain.h"

#include <fmt/format.h>

#include "launch/program/estimate.h"

namespace recollect {

namespace {

// "device 4096+512": where a value lies and its bytes.
std::string place_text(const Program& program, ValueId v) {
  const Value& value = program.graph.value(v);
  return fmt::format("{} {} {}+{}", value.name, name_of(value.space), program.layout.value_offsets[v],
                     value.bytes());
}

std::string op_line(const Program& program, OpId id) {
  const Op& op = program.graph.op(id);
  std::string line = fmt::format("{:>5} {:<9} {:<14} {} {}", id, name_of(op.phase), name_of(op.stream),
                                 op.name, op.def->name);
  if (!op.attributes.items().empty()) line += fmt::format(" ({})", op.attributes.to_string());
  if (op.when == RunWhen::kOnce) line += " [once]";
  if (op.when == RunWhen::kFirstMicroBatch) line += " [first micro-batch]";
  if (op.when == RunWhen::kLastMicroBatch) line += " [last micro-batch]";
  std::string names;
  for (OpId before : program.schedule.waits[id])
    names += (names.empty() ? "" : ", ") + program.graph.op(before).name;
  if (!names.empty()) line += " | waits for " + names;
  names.clear();
  for (ValueId v : op.outputs)
    if (v != kNone) names += (names.empty() ? "" : ", ") + place_text(program, v);
  line += " | " + names;
  if (program.workspaces[id])
    line += fmt::format(" | workspace {}+{}", program.layout.workspace_offsets[id], program.workspaces[id]);
  return line + "\n";
}

}  // namespace

std::string schedule_text(const Program& program) {
  std::string text =
      "# op phase stream name kind (attributes) | waits | outputs: space offset+bytes | workspace\n";
  for (OpId id : program.graph.op_ids()) text += op_line(program, id);
  return text;
}

void explain_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  Config config = read_config_words("explain", parse_options(words, key_options()), kAnyBuild);
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  for (const Choice& choice : planned.training.checkpointed.choices)
    fmt::print("# {}: {} ({})\n", choice.key, choice.layers, choice.reason);
  for (const Remark& remark : planned.training.remarks) fmt::print("# {}: {}\n", remark.key, remark.sentence);
  fmt::print("{}\n{}", to_yaml(planned.training.checkpointed.plan), schedule_text(planned.training.program));
}

}  // namespace recollect
