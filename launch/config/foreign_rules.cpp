#include "launch/config/foreign_rules.h"

namespace recollect {

namespace {

constexpr std::string_view
    kRulesThere =
        "not supported: adamw, adamw_hf, adam, sgd, lion, adafactor, adafactor_hf, muon, adamw8bit and "
        "lion8bit are",
    kEmbeddings = "states of embeddings are 8 bits too, which bitsandbytes leaves at 32",
    kPaged =
        "states stay in the device's memory; those of embeddings are 8 bits too, which bitsandbytes leaves "
        "at 32",
    kPagedWhole = "states stay in the device's memory",
    kPagedAdam =
        "states stay in the device's memory, and weights decay before the update, in bitsandbytes after it",
    kProjected = "not supported: gradients are not projected to fewer dimensions",
    kNoSchedule = "not supported: it has no schedule and averages weights; optimizer.name adamw has one",
    kFourBits = "not supported: states are 32 or 8 bits; adamw8bit has 8",
    kShapesThere =
        "not supported: constant, linear, cosine, cosine_with_restarts, polynomial, inverse_sqrt, "
        "warmup_stable_decay, one_cycle and step are, which follow from the step alone";

constexpr ForeignOptimizer kTrainerOptimizers[] = {
    {"adamw_hf", "adamw_hf", true, true},
    {"adamw_torch", "adamw", true, true},
    {"adamw_torch_fused", "adamw", true, true},
    {"adamw_torch_xla", "adamw", true, true},
    {"adamw_torch_npu_fused", "adamw", true, true},
    {"adamw_apex_fused", "adamw", true, true},
    {"adamw_anyprecision", "adamw", true, true},  // whose states are 32 bits unless optim_args say otherwise
    {"adafactor", "adafactor_hf", false, false, "optimizer.scale_parameter=false"},
    {"sgd", "sgd"},
    {"adamw_bnb_8bit", "adamw8bit", true, true, "", kEmbeddings},
    {"adamw_8bit", "adamw8bit", true, true, "", kEmbeddings},
    {"paged_adamw_8bit", "adamw8bit", true, true, "", kPaged},
    {"paged_adamw_32bit", "adamw", true, true, "", kPagedAdam},
    {"adamw_torch_8bit", "adamw8bit", true, true, "", "blocks and tables are those of bitsandbytes"},
    {"adamw_torch_4bit", "", false, false, "", kFourBits},
    {"lion_32bit", "lion", true},
    {"paged_lion_32bit", "lion", true, false, "", kPagedWhole},
    {"lion_8bit", "lion8bit", true, false, "", kEmbeddings},
    {"paged_lion_8bit", "lion8bit", true, false, "", kPaged},
    {"ademamix", "", false, false, "", kRulesThere},
    {"ademamix_8bit", "", false, false, "", kRulesThere},
    {"paged_ademamix_32bit", "", false, false, "", kRulesThere},
    {"paged_ademamix_8bit", "", false, false, "", kRulesThere},
    {"adagrad", "", false, false, "", kRulesThere},
    {"rmsprop", "", false, false, "", kRulesThere},
    {"rmsprop_bnb", "", false, false, "", kRulesThere},
    {"rmsprop_bnb_8bit", "", false, false, "", kRulesThere},
    {"rmsprop_bnb_32bit", "", false, false, "", kRulesThere},
    {"galore_adamw", "", false, false, "", kProjected},
    {"galore_adamw_8bit", "", false, false, "", kProjected},
    {"galore_adafactor", "", false, false, "", kProjected},
    {"galore_adamw_layerwise", "", false, false, "", kProjected},
    {"galore_adamw_8bit_layerwise", "", false, false, "", kProjected},
    {"galore_adafactor_layerwise", "", false, false, "", kProjected},
    {"apollo_adamw", "", false, false, "", kProjected},
    {"apollo_adamw_layerwise", "", false, false, "", kProjected},
    {"lomo", "", false, false, "", kRulesThere},
    {"adalomo", "", false, false, "", kRulesThere},
    {"grokadamw", "", false, false, "", kRulesThere},
    {"stable_adamw", "", false, false, "", kRulesThere},
    {"schedule_free_radam", "", false, false, "", kNoSchedule},
    {"schedule_free_adamw", "", false, false, "", kNoSchedule},
    {"schedule_free_sgd", "", false, false, "", kNoSchedule},
    // What axolotl adds.
    {"optimi_adamw", "adamw", true, true},
    {"ao_adamw_8bit", "adamw8bit", true, true, "", "blocks and tables are those of bitsandbytes"},
    {"ao_adamw_4bit", "", false, false, "", kFourBits},
    {"ao_adamw_fp8", "", false, false, "", kFourBits},
};

constexpr ForeignSchedule kTrainerSchedules[] = {
    {"linear", "linear"},
    {"cosine", "cosine"},
    {"cosine_with_restarts", "cosine_with_restarts"},
    {"polynomial", "polynomial"},
    {"constant", "constant", false},
    {"constant_with_warmup", "constant"},
    {"inverse_sqrt", "inverse_sqrt"},
    {"cosine_with_min_lr", "cosine"},
    {"warmup_stable_decay", "warmup_stable_decay"},
    {"cosine_warmup_with_min_lr", "", true,
     "not supported: each of its steps has the rate of the one after it; name: cosine and min_lr in section "
     "'scheduler' are cosine_with_min_lr"},
    {"reduce_lr_on_plateau", "", true, kShapesThere},
    {"greedy", "", true, kShapesThere},
};

using Kind = ForeignArgument::Kind;

constexpr ForeignArgument kScheduleArguments[] = {
    {"cosine", "num_cycles", "", "0.5", Kind::kOnly},
    {"cosine_with_restarts", "num_cycles", "scheduler.num_cycles", "1"},
    {"polynomial", "lr_end", "scheduler.min_lr", "1e-07"},
    {"polynomial", "power", "scheduler.power", "1"},
    {"inverse_sqrt", "timescale", "scheduler.timescale", ""},
    {"cosine_with_min_lr", "num_cycles", "", "0.5", Kind::kOnly},
    {"cosine_with_min_lr", "min_lr", "scheduler.min_lr", ""},
    {"cosine_with_min_lr", "min_lr_rate", "scheduler.min_lr", "", Kind::kPartOfRate},
    {"warmup_stable_decay", "num_decay_steps", "scheduler.decay_steps", ""},
    {"warmup_stable_decay", "decay_type", "scheduler.decay_shape", "cosine"},
    {"warmup_stable_decay", "min_lr_ratio", "scheduler.min_lr", "0", Kind::kPartOfRate},
    {"warmup_stable_decay", "warmup_type", "", "linear", Kind::kOnly},
    {"warmup_stable_decay", "num_cycles", "", "0.5", Kind::kOnly},
};

}  // namespace

std::span<const ForeignOptimizer> transformers_optimizers() { return kTrainerOptimizers; }
std::span<const ForeignSchedule> transformers_schedules() { return kTrainerSchedules; }
std::span<const ForeignArgument> transformers_arguments() { return kScheduleArguments; }

}  // namespace recollect
