// What others call the settings of adapters, where it is no alias of ours.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr ForeignKey kAdapterKeys[] = {
    {"adapter", "axolotl", "lora.rank", "write rank in section 'lora'"},
    {"lora_target_linear", "axolotl", "lora.targets", "write targets: all-linear in section 'lora'"},
    {"peft_config", "TRL", "lora.rank", "write its keys in section 'lora'"},
    {"lora.bias", "PEFT", "", "leave it out: biases are frozen"},
    {"lora.fan_in_fan_out", "PEFT", "", "leave it out: the model's family says it"},
    {"lora.init_lora_weights", "PEFT", "", "leave it out: A is drawn as PEFT does it, B is zero"},
    {"lora.use_dora", "PEFT", "", "not supported: adapters are A and B alone"},
    {"lora.base_model_name_or_path", "PEFT", "model.pretrained", ""},
    {"lora.task_type", "PEFT", "task", "write task at the top level"},
};

}  // namespace

std::span<const ForeignKey> foreign_adapter_keys() { return kAdapterKeys; }

}  // namespace recollect
