// What others call the learning rate's schedule and its settings, where it is no alias of ours.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr std::string_view kPartOfRate = "write min_lr: {} x the learning rate in section 'scheduler'";

constexpr ForeignKey kScheduleKeys[] = {
    {"scheduler", "PyTorch", "scheduler.name", ""},
    {"lr_scheduler", "axolotl, torchtitan", "scheduler.name", ""},
    {"lr_scheduler.warmup_steps", "torchtitan", "scheduler.warmup_steps", ""},
    {"lr_scheduler.decay_type", "torchtitan", "scheduler.name", ""},
    {"lr_scheduler.decay_ratio", "torchtitan", "scheduler.decay_ratio",
     "write name: warmup_stable_decay and decay_ratio: {} in section 'scheduler', and the decay_type as "
     "decay_shape"},
    {"scheduler.type", "DeepSpeed", "scheduler.name", ""},
    {"scheduler.params.warmup_num_steps", "DeepSpeed", "scheduler.warmup_steps", ""},
    {"scheduler.params.total_num_steps", "DeepSpeed", "training.max_steps", ""},
    {"scheduler.params.warmup_min_lr", "DeepSpeed", "",
     "not supported: the warm-up begins at 0, and scheduler.min_lr is the end"},
    {"scheduler.params.warmup_type", "DeepSpeed", "", "leave it out: the warm-up is linear"},
    {"scheduler.params", "DeepSpeed", "", "write its keys in section 'scheduler': warmup_steps, min_lr"},
    {"lr_scheduler_kwargs.num_cycles", "Transformers", "scheduler.num_cycles", ""},
    {"lr_scheduler_kwargs.power", "Transformers", "scheduler.power", ""},
    {"lr_scheduler_kwargs.lr_end", "Transformers", "scheduler.min_lr", ""},
    {"lr_scheduler_kwargs.min_lr", "Transformers", "scheduler.min_lr", ""},
    {"lr_scheduler_kwargs.timescale", "Transformers", "scheduler.timescale", ""},
    {"lr_scheduler_kwargs.num_decay_steps", "Transformers", "scheduler.decay_steps", ""},
    {"lr_scheduler_kwargs.decay_type", "Transformers", "scheduler.decay_shape", ""},
    {"lr_scheduler_kwargs.warmup_type", "Transformers", "", "leave it out: the warm-up is linear"},
    {"lr_scheduler_kwargs.num_stable_steps", "Transformers", "",
     "leave it out: the rate stays until scheduler.decay_steps before the end"},
    {"lr_scheduler_kwargs", "Transformers", "",
     "write its keys in section 'scheduler': num_cycles, power, min_lr, timescale, decay_steps, decay_shape"},
    {"warmup", "PyTorch", "scheduler.warmup_steps", ""},
    {"warm_up", "PyTorch", "scheduler.warmup_steps", ""},
    {"warm_up_steps", "PyTorch", "scheduler.warmup_steps", ""},
    {"lr_warmup_steps", "Diffusers", "scheduler.warmup_steps", ""},
    {"warmup_fraction", "PyTorch", "scheduler.warmup_ratio", ""},
    {"warmup_proportion", "TensorFlow", "scheduler.warmup_ratio", ""},
    {"warmup_epochs", "timm", "scheduler.warmup_steps",
     "write warmup_steps: N in section 'scheduler'; an epoch is N = samples / training.global_batch_size"},
    {"lr_warmup_samples", "Megatron", "scheduler.warmup_steps",
     "write warmup_steps: {} / training.global_batch_size in section 'scheduler'"},
    {"max_lr", "PyTorch", "optimizer.learning_rate", ""},
    {"lr_decay_iters", "Megatron", "training.max_steps", "leave it out: the rate falls until max_steps"},
    {"cycle_momentum", "PyTorch", "",
     "not supported: the momentum stays what it is; only the rate rises and falls"},
    {"three_phase", "PyTorch", "", "not supported: one_cycle rises once, and falls once"},
    {"min_lr_rate", "Transformers", "scheduler.min_lr", kPartOfRate},
    {"min_lr_ratio", "Transformers", "scheduler.min_lr", kPartOfRate},
    {"min_lr_factor", "torchtitan", "scheduler.min_lr", kPartOfRate},
    {"cosine_min_lr_ratio", "axolotl", "scheduler.min_lr", kPartOfRate},
};

}  // namespace

std::span<const ForeignKey> foreign_schedule_keys() { return kScheduleKeys; }

}  // namespace recollect
