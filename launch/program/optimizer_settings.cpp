#include "launch/program/optimizer_settings.h"

#include "launch/config/optimizer_groups.h"

namespace recollect {

OptimizerSettings optimizer_settings(const Config& config) {
  const Config::Optimizer& o = config.optimizer;
  return {.name = o.name,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .momentum = o.momentum,
          .weight_decay = o.weight_decay,
          .beta2_decay = o.beta2_decay,
          .clip_threshold = o.clip_threshold,
          .scale_epsilon = o.scale_epsilon,
          .scale_parameter = o.scale_parameter,
          .relative_step = o.relative_step,
          .nesterov = o.nesterov,
          .ns_steps = o.ns_steps,
          .adjust_lr_fn = o.adjust_lr_fn,
          .decay_all = o.decay_all,
          .max_grad_norm = o.max_grad_norm,
          .bf16_masters = config.training.master_dtype == MasterDType::kBF16,
          .loss_scaled = config.training.scales_loss(),
          .layer_decay = o.layer_decay,
          .offload = {.to = o.offload, .update = o.offload_update, .ratio = o.offload_ratio},
          .groups = parameter_groups(config)};
}

}  // namespace recollect
