// Names that mean exactly one of our keys, beside the key's own: of the same type, and for all values that ours
// takes, but for those in foreign_values.cpp.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr ForeignName kForeignNames[] = {
    {"model_type", "Transformers", "model.type"},
    {"model_name_or_path", "Transformers", "model.pretrained"},
    {"pretrained_model_name_or_path", "Transformers", "model.pretrained"},
    {"base_model", "axolotl", "model.pretrained"},

    {"r", "PEFT", "lora.rank"},
    {"lora_r", "axolotl", "lora.rank"},
    {"lora_alpha", "PEFT, axolotl", "lora.alpha"},
    {"lora_dropout", "PEFT, axolotl", "lora.dropout"},
    {"target_modules", "PEFT", "lora.targets"},
    {"lora_target_modules", "axolotl", "lora.targets"},
    {"lora_layers_to_transform", "axolotl", "lora.layers_to_transform"},
    {"peft_layers_to_transform", "axolotl", "lora.layers_to_transform"},
    {"peft_layers_pattern", "axolotl", "lora.layers_pattern"},
    {"use_rslora", "PEFT", "lora.rslora"},
    {"lora_modules_to_save", "axolotl", "lora.modules_to_save"},
    {"lora_model_dir", "axolotl", "lora.path"},

    {"tp", "nanotron", "parallelism.tensor_parallel_size"},
    {"tensor_model_parallel_size", "Megatron", "parallelism.tensor_parallel_size"},
    {"tensor_parallel_degree", "torchtitan", "parallelism.tensor_parallel_size"},
    {"tp_size", "accelerate", "parallelism.tensor_parallel_size"},
    {"dp", "nanotron", "parallelism.data_parallel_size"},
    {"data_parallel_replicate_degree", "torchtitan", "parallelism.data_parallel_size"},
    {"dp_replicate_size", "accelerate", "parallelism.data_parallel_size"},
    {"ddp_bucket_cap_mb", "Transformers", "parallelism.gradient_bucket_mb"},
    {"bucket_cap_mb", "PyTorch", "parallelism.gradient_bucket_mb"},
    {"train_timeout_seconds", "torchtitan", "parallelism.timeout_seconds"},
    {"ddp_backend", "Transformers", "parallelism.communicator"},
    {"distributed_backend", "Megatron", "parallelism.communicator"},

    {"num_cpu_threads_per_process", "accelerate", "device.threads"},
    {"allow_tf32", "PyTorch", "device.tf32"},

    {"per_device_train_batch_size", "Transformers", "training.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "DeepSpeed", "training.micro_batch_size"},
    {"local_batch_size", "torchtitan", "training.micro_batch_size"},
    {"train_batch_size", "DeepSpeed", "training.global_batch_size"},
    {"train_iters", "Megatron", "training.max_steps"},
    {"train_steps", "TensorFlow", "training.max_steps"},
    {"max_iters", "nanoGPT", "training.max_steps"},
    {"max_train_steps", "accelerate", "training.max_steps"},
    {"num_train_epochs", "Transformers", "training.epochs"},
    {"num_epochs", "axolotl", "training.epochs"},
    {"max_epochs", "Lightning", "training.epochs"},

    {"optim", "Transformers", "optimizer.name"},
    {"optimizer_name", "axolotl", "optimizer.name"},
    {"lr", "Megatron, torchtitan", "optimizer.learning_rate"},
    {"adam_beta1", "Transformers, Megatron", "optimizer.beta1"},
    {"adam_beta2", "Transformers, Megatron", "optimizer.beta2"},
    {"adam_epsilon", "Transformers", "optimizer.epsilon"},
    {"adam_eps", "Megatron", "optimizer.epsilon"},
    {"eps", "PyTorch", "optimizer.epsilon"},
    {"sgd_momentum", "Megatron", "optimizer.momentum"},
    {"decay_rate", "Transformers", "optimizer.beta2_decay"},
    {"clip_grad", "Megatron", "optimizer.max_grad_norm"},
    {"gradient_clipping", "DeepSpeed", "optimizer.max_grad_norm"},
    {"max_norm", "torchtitan", "optimizer.max_grad_norm"},
    {"gradient_clip_val", "Lightning", "optimizer.max_grad_norm"},

    {"lr_scheduler_type", "Transformers", "scheduler.name"},
    {"lr_decay_style", "Megatron", "scheduler.name"},
    {"decay_type", "torchtitan", "scheduler.name"},
    {"lr_warmup_iters", "Megatron", "scheduler.warmup_steps"},
    {"num_warmup_steps", "Transformers", "scheduler.warmup_steps"},
    {"warmup_num_steps", "DeepSpeed", "scheduler.warmup_steps"},
    {"warmup_iters", "nanoGPT", "scheduler.warmup_steps"},
    {"lr_warmup_fraction", "Megatron", "scheduler.warmup_ratio"},
    {"eta_min", "PyTorch", "scheduler.min_lr"},
    {"lr_end", "Transformers", "scheduler.min_lr"},
    {"num_decay_steps", "Transformers", "scheduler.decay_steps"},
    {"lr_wsd_decay_iters", "Megatron", "scheduler.decay_steps"},
    {"lr_wsd_decay_style", "Megatron", "scheduler.decay_shape"},
    {"anneal_strategy", "PyTorch", "scheduler.decay_shape"},

    {"recompute_granularity", "Megatron", "activation_checkpointing.mode"},
    {"partitioned_checkpointing", "OSLO", "activation_checkpointing.partition_activations"},
    {"distribute_saved_activations", "Megatron", "activation_checkpointing.partition_activations"},
    {"cpu_offloading", "Megatron", "activation_checkpointing.cpu_checkpointing"},
    {"contiguous_memory_optimization", "DeepSpeed", "activation_checkpointing.contiguous_checkpointing"},

    {"train_file", "Transformers", "data.path"},
    {"data_path", "Megatron", "data.path"},
    {"dataset_path", "torchtitan", "data.path"},
    {"seq_length", "Megatron", "data.sequence_length"},
    {"seq_len", "torchtitan", "data.sequence_length"},
    {"sequence_len", "axolotl", "data.sequence_length"},
    {"max_seq_length", "Transformers", "data.sequence_length"},
    {"block_size", "Transformers", "data.sequence_length"},
    {"data_seed", "Transformers", "data.seed"},
    {"dataloader_prefetch_factor", "Transformers", "data.prefetch"},
    {"sample_packing", "axolotl", "data.packing"},
    {"doc_stride", "Transformers", "data.stride"},
    {"mlm_probability", "Transformers", "data.mask_probability"},
    {"tokenizer_name", "Transformers", "data.tokenizer"},
    {"tokenizer_path", "torchtitan", "data.tokenizer"},
    {"tokenizer_model", "Megatron", "data.tokenizer"},
    {"hf_assets_path", "torchtitan", "data.tokenizer"},
    {"dataset_text_field", "TRL", "data.columns.text"},
    {"text_column_name", "Transformers", "data.columns.text"},
    {"label_column_name", "Transformers", "data.columns.label"},

    {"validation_file", "Transformers", "evaluation.path"},
    {"eval_steps", "Transformers", "evaluation.every_steps"},
    {"eval_interval", "Megatron", "evaluation.every_steps"},
    {"eval_iters", "Megatron", "evaluation.batches"},
    {"n_best_size", "Transformers", "evaluation.n_best"},
    {"null_score_diff_threshold", "Transformers", "evaluation.null_threshold"},

    {"save_steps", "Transformers", "snapshot.every_steps"},
    {"save_interval", "Megatron", "snapshot.every_steps"},
    {"save_total_limit", "Transformers", "snapshot.keep"},
    {"keep_latest_k", "torchtitan", "snapshot.keep"},
    {"async_save", "Megatron", "snapshot.asynchronous"},

    {"logging_steps", "Transformers", "logging.steps"},
    {"log_interval", "Megatron", "logging.steps"},
    {"log_freq", "torchtitan", "logging.steps"},
    {"steps_per_print", "DeepSpeed", "logging.steps"},
    {"log_every_n_steps", "Lightning", "logging.steps"},
    {"logging_dir", "Transformers", "logging.tensorboard_dir"},
    {"save_tb_folder", "torchtitan", "logging.tensorboard_dir"},

    {"out_dir", "nanoGPT", "output_dir"},
    {"dump_folder", "torchtitan", "output_dir"},
    {"overwrite_output_dir", "Transformers", "overwrite"},
    {"resume_from_checkpoint", "Transformers", "resume"},
};

}  // namespace

std::span<const ForeignName> foreign_names() { return kForeignNames; }

}  // namespace recollect
