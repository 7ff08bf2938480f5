// What others call the settings of activation checkpointing, where it is no alias of ours.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr std::string_view kExact = "leave it out: recomputation is exact in every mode";

constexpr ForeignKey kActivationKeys[] = {
    {"gradient_checkpointing", "Transformers, axolotl", "activation_checkpointing.mode",
     "write mode: full in section 'activation_checkpointing'"},
    {"gradient_checkpointing_kwargs", "Transformers", "", kExact},
    {"activation_checkpointing_kwargs", "Transformers", "", kExact},
    {"activation_checkpointing", "FSDP, axolotl", "activation_checkpointing.mode", ""},
    {"enable_activation_checkpointing", "torchtune", "activation_checkpointing.mode", ""},
    {"activation_checkpoint.mode", "torchtitan", "activation_checkpointing.mode", ""},
    {"activation_checkpoint", "torchtitan", "activation_checkpointing.mode",
     "write mode: full in section 'activation_checkpointing'"},
    {"selective_ac_option", "torchtitan", "activation_checkpointing.k",
     "a number is mode: every_k and k; op is mode: selective"},
    {"activation_checkpointing.synchronize_checkpoint_boundary", "DeepSpeed", "",
     "leave it out: streams wait for what they need, and only for that"},
    {"activation_checkpointing.profile", "DeepSpeed", "",
     "leave it out: every run reports what each switch moved and the time it waited"},
    {"activation_checkpointing.enable", "OSLO", "activation_checkpointing.mode",
     "write mode: full, or mode: none"},
    {"activation_checkpointing.enabled", "OSLO", "activation_checkpointing.mode",
     "write mode: full, or mode: none"},
    {"checkpointing", "PyTorch", "activation_checkpointing.mode", ""},
    {"activation_checkpointing.granularity", "Megatron", "activation_checkpointing.mode", ""},
    {"activation_checkpointing.policy", "PyTorch", "activation_checkpointing.mode", ""},
    {"activation_checkpointing.type", "PyTorch", "activation_checkpointing.mode", ""},
    {"activation_checkpointing.dtype", "PyTorch", "activation_checkpointing.storage_dtype", ""},
    {"activation_checkpointing.offload", "FSDP", "activation_checkpointing.cpu_checkpointing", ""},
    {"activation_checkpointing.cpu_offload", "FSDP", "activation_checkpointing.cpu_checkpointing", ""},
    {"activation_offloading", "Transformers", "activation_checkpointing.cpu_checkpointing", ""},
    {"recompute_activations", "Megatron", "activation_checkpointing.mode",
     "write mode: selective and recompute: [attention] in section 'activation_checkpointing'"},
    {"recompute_modules", "Megatron", "activation_checkpointing.recompute",
     "write mode: selective and recompute, a list: core_attn is attention, layernorm is norm, mlp is mlp "
     "here"},
    {"recompute_method", "Megatron", "activation_checkpointing.mode",
     "uniform is mode: every_k, or mode: full with one layer in each group; block needs a file of decisions, "
     "plan: FILE"},
    {"recompute_num_layers", "Megatron", "activation_checkpointing.k",
     "with recompute_method uniform write mode: every_k and k, of which the last group is not run again, or "
     "mode: full for 1; with block, plan: FILE"},
    {"cpu_offloading_num_layers", "Megatron", "activation_checkpointing.keep_last",
     "it counts the layers whose values leave: write keep_last, which counts those at the end whose values "
     "stay"},
    {"cpu_offloading_activations", "Megatron", "activation_checkpointing.cpu_checkpointing", ""},
    {"cpu_offloading_weights", "Megatron", "", "leave it out: weights stay on the device"},
    {"fine_grained_activation_offloading", "Megatron", "activation_checkpointing.cpu_checkpointing",
     "write cpu_checkpointing: true, or decide for every value in a file, plan: FILE"},
    {"offload_modules", "Megatron", "activation_checkpointing.plan",
     "decide for every value in a file: plan: FILE"},
    {"activation_offload_fraction", "Megatron", "activation_checkpointing.keep_last",
     "write keep_last, the layers at the end whose values stay, or decide for every value in a file: plan: "
     "FILE"},
};

}  // namespace

std::span<const ForeignKey> foreign_activation_keys() { return kActivationKeys; }

}  // namespace recollect
