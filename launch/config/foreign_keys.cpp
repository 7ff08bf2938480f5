#include "launch/config/foreign_keys.h"

#include <fmt/format.h>

namespace recollect {

namespace {

constexpr ForeignKey kForeignKeys[] = {
    {"synchronize_checkpoint_boundary", "DeepSpeed",
     "leave it out: streams wait for what they need, and only for that"},
    {"profile", "DeepSpeed", "leave it out: every run reports what each switch moved and the time it waited"},
    {"enable", "OSLO", "write mode: full, or mode: none"},
    {"enabled", "OSLO", "write mode: full, or mode: none"},
    {"gradient_checkpointing", "Transformers", "write mode: full, or mode: none"},
    {"activation_offloading", "Transformers", "write cpu_checkpointing: true"},
    {"recompute_activations", "Megatron", "write mode: selective and recompute: [attention]"},
    {"recompute_modules", "Megatron",
     "write mode: selective and recompute, a list: core_attn is attention, layernorm is norm, mlp is mlp "
     "here"},
    {"recompute_method", "Megatron",
     "uniform is mode: every_k, or mode: full with one layer in each group; block needs a file of decisions, "
     "plan: FILE"},
    {"recompute_num_layers", "Megatron",
     "with recompute_method uniform write mode: every_k and k, of which the last group is not run again, or "
     "mode: full "
     "for 1; with block, plan: FILE"},
    {"cpu_offloading_num_layers", "Megatron",
     "it counts the layers whose values leave: write keep_last, which counts those at the end whose values "
     "stay"},
    {"cpu_offloading_activations", "Megatron", "write cpu_checkpointing: true"},
    {"cpu_offloading_weights", "Megatron", "leave it out: weights stay on the device"},
    {"fine_grained_activation_offloading", "Megatron",
     "write cpu_checkpointing: true, or decide for every value in a file, plan: FILE"},
    {"offload_modules", "Megatron", "decide for every value in a file: plan: FILE"},
    {"activation_offload_fraction", "Megatron",
     "write keep_last, the layers at the end whose values stay, or decide for every value in a file: plan: "
     "FILE"},
};

struct ForeignValue {
  std::string_view name, value, advice;
};

constexpr ForeignValue kForeignValues[] = {
    {"recompute_granularity", "selective",
     "Megatron's selective runs the attention core again: write mode: selective and recompute: [attention]"},
};

bool is_ours(std::string_view section) { return section == "activation_checkpointing"; }

}  // namespace

std::span<const ForeignKey> foreign_keys() { return kForeignKeys; }

std::string foreign_key_advice(std::string_view section, std::string_view name) {
  for (const ForeignKey& key : kForeignKeys)
    if (is_ours(section) && key.name == name)
      return fmt::format("'{}' is a key of {}; {}", key.name, key.of, key.advice);
  return "";
}

std::string foreign_value_advice(std::string_view section, std::string_view name, std::string_view value) {
  for (const ForeignValue& foreign : kForeignValues)
    if (is_ours(section) && foreign.name == name && foreign.value == value)
      return std::string(foreign.advice);
  return "";
}

}  // namespace recollect
