// What others call the settings of adapters, where it is no alias of ours.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr ForeignKey kAdapterKeys[] = {
    {"adapter", "axolotl", "lora.rank", "write rank in section 'lora'"},
    {"lora_target_linear", "axolotl", "lora.targets", "write targets: all-linear in section 'lora'"},
    {"peft_config", "TRL", "lora.rank", "write its keys in section 'lora'"},
    {"load_in_4bit", "Transformers, axolotl", "lora.base", "write base: nf4 (or fp4) in section 'lora'"},
    {"load_in_8bit", "Transformers, axolotl", "lora.base", "write base: int8 in section 'lora'"},
    {"quantization_config", "Transformers", "lora.base",
     "write base, double_quant and base_skip_modules in section 'lora'"},
    {"bnb_config_kwargs", "axolotl", "lora.base", "write base and double_quant in section 'lora'"},
    {"bnb_4bit_compute_dtype", "Transformers", "training.precision", ""},
    {"bnb_4bit_quant_storage", "Transformers", "",
     "leave it out: two numbers of 4 bits are stored in a byte"},
    {"llm_int8_threshold", "Transformers", "",
     "leave it out: products are of numbers in training.precision, so that no column is an outlier"},
    {"llm_int8_has_fp16_weight", "Transformers", "", "leave it out: weights of 8 bits are stored as such"},
    {"llm_int8_enable_fp32_cpu_offload", "Transformers", "",
     "not supported: all layers are computed by device.backend"},
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
