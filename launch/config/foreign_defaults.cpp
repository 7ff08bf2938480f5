// What Transformers' TrainingArguments write of keys that nobody gave: to_json_string() has all of them, and of these nothing
// is told. Of versions 4 and 5; values between bars.
#include <algorithm>

#include "launch/config/import_rules.h"

namespace recollect {

namespace {

struct TheirDefault {
  std::string_view path, values;
};

constexpr TheirDefault kTrainingArguments[] = {
    {"accelerator_config.even_batches", "true"},
    {"accelerator_config.non_blocking", "false"},
    {"accelerator_config.split_batches", "false"},
    {"accelerator_config.use_configured_state", "false"},
    {"accelerator_config.use_seedable_sampler", "true"},
    {"activation_checkpointing", "false"},
    {"adafactor", "false"},
    {"adam_beta1", "0.9"},
    {"adam_beta2", "0.999"},
    {"adam_epsilon", "1e-08"},
    {"auto_find_batch_size", "false"},
    {"average_tokens_across_devices", "true|false"},
    {"batch_eval_metrics", "false"},
    {"bf16", "false"},
    {"bf16_full_eval", "false"},
    {"dataloader_drop_last", "false"},
    {"dataloader_in_order", "true"},
    {"dataloader_num_workers", "0"},
    {"dataloader_persistent_workers", "false"},
    {"dataloader_pin_memory", "false|true"},
    {"ddp_timeout", "1800"},
    {"disable_tqdm", "false|true"},
    {"do_eval", "false"},
    {"do_predict", "false"},
    {"do_train", "false"},
    {"enable_jit_checkpoint", "false"},
    {"eval_delay", "0"},
    {"eval_do_concat_batches", "true"},
    {"eval_on_start", "false"},
    {"eval_strategy", "no"},
    {"eval_use_gather_object", "false"},
    {"fp16", "false"},
    {"fp16_backend", "auto"},
    {"fp16_full_eval", "false"},
    {"fp16_opt_level", "O1"},
    {"fsdp_config.min_num_params", "0"},
    {"fsdp_config.xla", "false"},
    {"fsdp_config.xla_fsdp_grad_ckpt", "false"},
    {"fsdp_config.xla_fsdp_v2", "false"},
    {"fsdp_min_num_params", "0"},
    {"full_determinism", "false"},
    {"gradient_accumulation_steps", "1"},
    {"gradient_checkpointing", "false"},
    {"group_by_length", "false"},
    {"half_precision_backend", "auto"},
    {"hub_always_push", "false"},
    {"hub_strategy", "every_save"},
    {"hub_token", "<HUB_TOKEN>"},
    {"ignore_data_skip", "false"},
    {"include_inputs_for_metrics", "false"},
    {"include_num_input_tokens_seen", "no|false"},
    {"include_tokens_per_second", "false"},
    {"jit_mode_eval", "false"},
    {"label_smoothing_factor", "0.0"},
    {"learning_rate", "5e-05"},
    {"length_column_name", "length"},
    {"load_best_model_at_end", "false"},
    {"local_rank", "0|-1"},
    {"log_level", "passive"},
    {"log_level_replica", "warning"},
    {"log_on_each_node", "true"},
    {"logging_first_step", "false"},
    {"logging_nan_inf_filter", "true"},
    {"logging_steps", "500"},
    {"logging_strategy", "steps"},
    {"lr_scheduler_type", "linear"},
    {"max_grad_norm", "1.0"},
    {"max_steps", "-1"},
    {"no_cuda", "false"},
    {"num_train_epochs", "3.0"},
    {"optim", "adamw_torch_fused|adamw_torch|adamw_hf"},
    {"overwrite_output_dir", "false"},
    {"past_index", "-1"},
    {"per_device_eval_batch_size", "8"},
    {"per_device_train_batch_size", "8"},
    {"prediction_loss_only", "false"},
    {"project", "huggingface"},
    {"push_to_hub", "false"},
    {"push_to_hub_token", "<PUSH_TO_HUB_TOKEN>"},
    {"ray_scope", "last"},
    {"remove_unused_columns", "true"},
    {"restore_callback_states_from_checkpoint", "false"},
    {"save_on_each_node", "false"},
    {"save_only_model", "false"},
    {"save_safetensors", "true|false"},
    {"save_steps", "500"},
    {"save_strategy", "steps"},
    {"seed", "42"},
    {"skip_memory_metrics", "true"},
    {"torch_compile", "false"},
    {"tpu_metrics_debug", "false"},
    {"trackio_space_id", "trackio"},
    {"train_sampling_strategy", "random"},
    {"use_cache", "false"},
    {"use_cpu", "false"},
    {"use_legacy_prediction_loop", "false"},
    {"use_liger_kernel", "false"},
    {"use_mps_device", "false"},
    {"warmup_ratio", "0.0"},
    {"warmup_steps", "0"},
    {"weight_decay", "0.0"},
};

const TheirDefault* find_default(std::string_view path) {
  const auto* const end = std::end(kTrainingArguments);
  const auto* const found = std::find_if(std::begin(kTrainingArguments), end,
                                         [&](const TheirDefault& d) { return d.path == path; });
  return found == end ? nullptr : found;
}

}  // namespace

bool is_training_argument(std::string_view name) { return find_default(name) != nullptr; }

bool is_default_there(std::string_view trainer, std::string_view path, const std::string& value) {
  const TheirDefault* const found = trainer == "Transformers" ? find_default(path) : nullptr;
  for (std::string_view rest = found ? found->values : ""; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    if (is_same_value(value, rest.substr(0, bar))) return true;
    rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
  }
  return false;
}

}  // namespace recollect
