// Keys of axolotl's, torchtitan's and OSLO's files that are no aliases of ours, and what is to be said of a part of the data
// that others set apart.
#include <cstdlib>

#include <fmt/format.h>

#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

// As a count of bytes; a whole number as it is.
std::string gibibytes(const std::string& number) {
  constexpr double kGibibyte = 1073741824, kMost = 1e6;
  char* end = nullptr;
  const double count = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(count > 0 && count < kMost)) return number;
  if (number.find('.') == std::string::npos) return number + "GiB";
  return fmt::format("{:.0f}", count * kGibibyte);
}

constexpr std::string_view
    kOwnFile = "not supported: evaluation.path names a file of its own",
    kPlanned = "leave it out: steps are planned as a whole, with kernels of their own",
    kNoTrackers =
        "not supported: logging.report_to has jsonl, tensorboard and mlflow; logging.hook feeds others",
    kThreads = "leave it out: batches are prepared by a thread, data.prefetch of them ahead",
    kSpikes =
        "not supported: numerics.spike_z_score names steps whose loss jumps, numerics.on_non_finite ends a "
        "run",
    kNoPenalties = "not supported: the loss is that of the key task",
    kDivided = "not supported: ranks divide by tensor, data and sequence";

constexpr ForeignKey kFileKeys[] = {
    {"test_size", "datasets", "evaluation.path", kOwnFile},
    {"train_size", "datasets", "evaluation.path", kOwnFile},
    {"validation_split", "Keras", "evaluation.path", kOwnFile},
    {"validation_split_percentage", "Transformers", "evaluation.path", kOwnFile},
    {"val_size", "PyTorch", "evaluation.path", kOwnFile},
    {"val_ratio", "PyTorch", "evaluation.path", kOwnFile},
    {"eval_size", "PyTorch", "evaluation.path", kOwnFile},
    {"evaluation.dataset_path", "PyTorch", "evaluation.path", ""},
    {"evaluation.data_path", "PyTorch", "evaluation.path", ""},
    {"memory_threshold", "Mimose", "device.memory_limit", "", gibibytes},

    {"test_datasets", "axolotl", "evaluation.path", "write path: FILE in section 'evaluation'"},
    {"use_wandb", "axolotl", "", kNoTrackers},
    {"wandb_watch", "axolotl", "", kNoTrackers},
    {"wandb_log_model", "axolotl", "", kNoTrackers},
    {"wandb_mode", "axolotl", "", kNoTrackers},
    {"use_comet", "axolotl", "", kNoTrackers},
    {"use_trackio", "axolotl", "", kNoTrackers},
    {"trust_remote_code", "axolotl", "", "leave it out: no code comes with a model"},
    {"tokenizer_config", "axolotl", "data.tokenizer", ""},
    {"eval_sample_packing", "axolotl", "", "leave it out: evaluations are packed as data.packing says"},
    {"excess_length_strategy", "axolotl", "data.truncation", "write truncation in section 'data'"},
    {"shuffle_merged_datasets", "axolotl", "data.shuffle", ""},
    {"dataset_processes", "axolotl", "", kThreads},
    {"dataset_num_proc", "axolotl", "", kThreads},
    {"dataset_keep_in_memory", "axolotl", "", kThreads},
    {"loss_watchdog_threshold", "axolotl", "numerics.spike_z_score", kSpikes},
    {"loss_watchdog_patience", "axolotl", "numerics.spike_z_score", kSpikes},
    {"adam_beta3", "axolotl", "", "not supported: rules have two moments at most"},
    {"adam_epsilon2", "axolotl", "", "not supported: rules have two moments at most"},
    {"embedding_lr", "axolotl", "optimizer.groups",
     "write a group that matches the embeddings, with learning_rate"},
    {"unfrozen_parameters", "axolotl", "optimizer.groups", "write groups with frozen: true for all others"},
    {"loraplus_lr_ratio", "axolotl", "optimizer.groups",
     "write a group that matches lora_B, with learning_rate"},
    {"plugins", "axolotl", "", "not supported: nothing is loaded into the program"},
    {"flex_attention", "axolotl", "", kPlanned},
    {"eager_attention", "axolotl", "", kPlanned},
    {"sage_attention", "axolotl", "", kPlanned},
    {"flash_attn_cross_entropy", "axolotl", "", kPlanned},
    {"flash_attn_fuse_mlp", "axolotl", "", kPlanned},
    {"flash_attn_rms_norm", "axolotl", "", kPlanned},
    {"chunked_cross_entropy", "axolotl", "", kPlanned},
    {"deepcompile", "axolotl", "", kPlanned},
    {"tiled_mlp", "axolotl", "", kPlanned},
    {"low_cpu_mem_usage", "axolotl", "", "leave it out: weights are read to where they stay"},
    {"relora", "axolotl", "", "not supported: adapters stay what they are until the end"},
    {"dp_shard_size", "axolotl", "parallelism.zero_stage", "write zero_stage: 3 in section 'parallelism'"},
    {"use_eaft", "axolotl", "", kNoPenalties},

    {"model.converters", "torchtitan", "training.fp8", "float8 is fp8: true in section 'training'"},
    {"quantize", "torchtitan", "training.fp8", "write fp8: true in section 'training'"},
    {"training.batch_size", "torchtitan", "training.micro_batch_size", ""},
    {"compile.components", "torchtitan", "", kPlanned},
    {"validation.dataset", "torchtitan", "evaluation.path", "write path: FILE in section 'evaluation'"},

    {"model_parallelism.tensor_parallel_size", "OSLO", "parallelism.tensor_parallel_size", ""},
    {"model_parallelism.pipeline_parallel_size", "OSLO", "", kDivided},
    {"model_parallelism", "OSLO", "parallelism.tensor_parallel_size",
     "write tensor_parallel_size in section 'parallelism'"},
    {"data_parallelism.stage", "OSLO", "parallelism.zero_stage", ""},
    {"data_parallelism", "OSLO", "parallelism.data_parallel_size",
     "write data_parallel_size and zero_stage in section 'parallelism'"},
    {"kernel_fusion", "OSLO", "", kPlanned},
    {"lazy_initialization", "OSLO", "", "leave it out: each rank makes its part of the weights alone"},

    {"accelerator_config.split_batches", "Transformers", "",
     "not supported: training.micro_batch_size is that of a rank; training.global_batch_size is of all"},
    {"accelerator_config.dispatch_batches", "Transformers", "", kThreads},
    {"accelerator_config.even_batches", "Transformers", "", kThreads},
    {"accelerator_config.use_seedable_sampler", "Transformers", "",
     "leave it out: the order follows from data.seed"},
};

}  // namespace

std::span<const ForeignKey> foreign_file_keys() { return kFileKeys; }

}  // namespace recollect
