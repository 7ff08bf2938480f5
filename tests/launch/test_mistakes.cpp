// What people get wrong: keys, values, options and commands as other programs have them, or mistyped; and the first
// line of the answer. A hint that is missing here is one that somebody will miss.
#include <sstream>
#include <string>

#include "launch/config/words.h"
#include "launch/run/options.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::mistakes_test {
namespace {

struct Mistake {
  const char* said;
  const char* answer;
};

constexpr Mistake kInTheFile[] = {
    {"num_train_epochs: 3",
     "'num_train_epochs' of Transformers is training.epochs here; write epochs: 3 in section 'training'"},
    {"training: {num_train_epochs: 3, max_steps: 9}",
     "training.epochs and training.max_steps are both given; give one"},
    {"load_best_model_at_end: true",
     "'load_best_model_at_end' of Transformers is checkpoint.save_best_model here; write save_best_model: "
     "true in section 'checkpoint'; it is saved beside the last one"},
    {"rl: dpo", "'rl' is a key of axolotl; not supported: the loss is that of the key task"},
    {"patience: 3",
     "'patience' of PyTorch is evaluation.early_stopping_patience here; write early_stopping_patience: 3 in "
     "section "
     "'evaluation'"},
    {"special_tokens: {pad_token: x}",
     "'special_tokens' is a key of axolotl; the tokenizer's own files say which they are"},
    {"swiglu: true",
     "'swiglu' is a key of Megatron; each type of model has its own: write type in section 'model'"},
    {"device: {memory_threshold: 6}",
     "'memory_threshold' of Mimose is device.memory_limit here; write memory_limit: 6GiB"},
    {"data: {test_size: 0.2}",
     "'test_size' is a key of datasets; not supported: evaluation.path names a file of its own"},
    {"optimizer: {alpha: 1}", "unknown key 'alpha' in section 'optimizer'"},
    {"logging: {report_to: [[jsonl]]}", "logging.report_to: expected a list of texts, and entry 1 is a list"},
    {"greater_is_better: false",
     "'greater_is_better' is a key of Transformers; leave it out: it follows from "
     "evaluation.metric_for_best_model"},
    {"early_stopping_patience: 3",
     "unknown key 'early_stopping_patience'; 'early_stopping_patience' belongs in section 'evaluation'"},
    {"bf16: true",
     "'bf16' of Transformers is training.precision here; write precision: bf16 in section "
     "'training'"},
    {"training: {bf16: true}", "'bf16' of Transformers is training.precision here; write precision: bf16"},
    {"training: {fp16: true}",
     "'fp16' of Transformers is training.precision here; write precision: fp16 and backend: "
     "cuda in section 'device'"},
    {"training: {precision: bfloat16}", "training.precision: for 'bfloat16' write precision: bf16"},
    {"training: {precision: fp8}", "training.precision: for 'fp8' write precision: bf16 and fp8: true"},
    {"training: {precision: int8}", "training.precision: 'int8' is not supported: fp32, bf16 and fp16 are"},
    {"training: {fp8: hybrid}", "training.fp8: for 'hybrid' write fp8: true"},
    {"training: {mixed_precision: no}",
     "'mixed_precision' of accelerate is training.precision here; write precision: fp32"},
    {"training: {mixed_precision: bf16-mixed}",
     "'mixed_precision' of accelerate is training.precision here; write precision: bf16"},
    {"fp16: {enabled: true, initial_scale_power: 12}",
     "'enabled' of DeepSpeed is training.precision here; write precision: fp16 in section "
     "'training' and backend: cuda in section 'device'"},
    {"bf16: {enabled: true}",
     "'enabled' of DeepSpeed is training.precision here; write precision: bf16 in section "
     "'training'"},
    {"logging_steps: 10",
     "'logging_steps' of Transformers is logging.steps here; write steps: 10 in section "
     "'logging'"},
    {"training: {save_steps: 500}",
     "'save_steps' of Transformers is snapshot.every_steps here; write every_steps: 500 in "
     "section 'snapshot'"},
    {"checkpoint: {interval: 500, folder: ckpt}",
     "'interval' of torchtitan is snapshot.every_steps here; write every_steps: 500 in "
     "section 'snapshot'"},
    {"lr_scheduler_type: cosine",
     "'lr_scheduler_type' of Transformers is scheduler.name here; write name: cosine in "
     "section 'scheduler'"},
    {"scheduler: {lr_scheduler_type: reduce_lr_on_plateau}",
     "scheduler.name: 'reduce_lr_on_plateau' is not supported: constant, linear, cosine, "
     "cosine_with_restarts, "
     "polynomial, inverse_sqrt, warmup_stable_decay, one_cycle and step are"},
    {"scheduler: {name: constant_with_warmup}",
     "scheduler.name: for 'constant_with_warmup' write name: constant"},
    {"optimizer: {adam_beta3: 0.9}",
     "'adam_beta3' is a key of axolotl; not supported: rules have two moments at most"},
    {"training: {adam_beta1: 0.8}",
     "'adam_beta1' of Transformers is optimizer.beta1 here; write beta1: 0.8 in section "
     "'optimizer'"},
    {"adam_beta1: 0.8",
     "'adam_beta1' of Transformers is optimizer.beta1 here; write beta1: 0.8 in section "
     "'optimizer'"},
    {"resume_from_checkpoint: true", "resume: for 'true' write resume: auto"},
    {"training: {resume_from_checkpoint: runs/a}",
     "'resume_from_checkpoint' of Transformers is resume here; write resume: runs/a at the "
     "top level"},
    {"gradient_checkpointing: true",
     "'gradient_checkpointing' of Transformers is activation_checkpointing.mode here; write "
     "mode: full in section 'activation_checkpointing'"},
    {"training: {gradient_checkpointing: false}",
     "'gradient_checkpointing' of Transformers is activation_checkpointing.mode here; write "
     "mode: none in section 'activation_checkpointing'"},
    {"evaluation: {strategy: steps}",
     "'strategy' is a key of Transformers; leave it out: evaluation.every_steps says it"},
    {"evaluation: {strategy: \"no\"}",
     "'strategy' of Transformers is evaluation.every_steps here; write every_steps: 0"},
    {"enable_activation_checkpointing: true",
     "'enable_activation_checkpointing' of torchtune is activation_checkpointing.mode here; write mode: full "
     "in section 'activation_checkpointing'"},
    {"activation_checkpointing: true",
     "'activation_checkpointing' of FSDP is activation_checkpointing.mode here; write "
     "mode: full in section 'activation_checkpointing'"},
    {"optim: adamw_torch",
     "'optim' of Transformers is optimizer.name here; write name: adamw in section 'optimizer'"},
    {"optimizer: {name: adamw_torch}", "optimizer.name: for 'adamw_torch' write name: adamw"},
    {"optimizer: {name: galore_adamw}",
     "optimizer.name: 'galore_adamw' is not supported: adamw, adamw_hf, adam, sgd, lion, adafactor, "
     "adafactor_hf, muon, adamw8bit and lion8bit are"},
    {"optim: adamw_bnb_8bit",
     "'optim' of Transformers is optimizer.name here; write name: adamw8bit in section "
     "'optimizer'; states of embeddings are 8 bits too, which Transformers leaves at 32"},
    {"training: {master_dtype: bf16}",
     "training.master_dtype has no effect with training.precision fp32: only parameters of bf16 can be such "
     "masters"},
    {"optim: adafactor",
     "'optim' of Transformers is optimizer.name here; write name: adafactor_hf and scale_parameter: false in "
     "section 'optimizer'"},
    {"optimizer: {name: AdamW}",
     "optimizer.name: expected one of adamw, adamw_hf, adam, sgd, lion, adafactor, adafactor_hf, muon, "
     "adamw8bit, lion8bit, found 'AdamW'; did you mean "
     "'adamw'?"},
    {"optimizer: adamw_torch",
     "'optimizer' of axolotl is optimizer.name here; write name: adamw in section 'optimizer'"},
    {"optimizer: {type: AdamW, params: {lr: 1e-4, betas: [0.9, 0.95]}}",
     "'type' of DeepSpeed is optimizer.name here; write name: adamw"},
    {"report_to: wandb",
     "'report_to' of Transformers is logging.report_to here, and 'wandb' is not supported: "
     "jsonl, tensorboard and mlflow are; logging.hook feeds others"},
    {"logging: {report_to: wandb}",
     "logging.report_to: 'wandb' is not supported: jsonl, tensorboard and mlflow are; logging.hook feeds "
     "others"},
    {"logging: {report_to: [jsonl, wandb]}",
     "logging.report_to: 'wandb' is not supported: jsonl, tensorboard and mlflow are; logging.hook feeds "
     "others"},
    {"report_to: mlflow",
     "'report_to' of Transformers is logging.report_to here; write report_to: [jsonl, mlflow] in section "
     "'logging'"},
    {"report_to: none",
     "'report_to' of Transformers is logging.report_to here; write report_to: [] in section "
     "'logging'"},
    {"device: {backend: gpu}", "device.backend: for 'gpu' write backend: cuda"},
    {"device: {backend: \"cuda:1\"}",
     "device.backend: for 'cuda:1' write backend: cuda; CUDA_VISIBLE_DEVICES says which"},
    {"device: {backend: tpu}", "device.backend: 'tpu' is not supported: cpu and cuda are"},
    {"device: cuda", "'device' of PyTorch is device.backend here; write backend: cuda in section 'device'"},
    {"device: {num_gpus: 4}",
     "'num_gpus' is a key of DeepSpeed; write backend: cuda in section 'device', and start a "
     "rank for each: recollect run --nproc-per-node 4 train ..."},
    {"zero_optimization: {stage: 2}",
     "'stage' of DeepSpeed is parallelism.zero_stage here; write zero_stage: 2 in section 'parallelism'"},
    {"deepspeed: ds.json", "'deepspeed' is a key of Transformers; recollect config import FILE reads it"},
    {"per_device_train_batch_size: 8",
     "'per_device_train_batch_size' of Transformers is training.micro_batch_size here; write "
     "micro_batch_size: 8 in section 'training'"},
    {"per_device_eval_batch_size: 8",
     "'per_device_eval_batch_size' is a key of Transformers; leave it out: an evaluation has "
     "micro-batches of the training's size"},
    {"training: {batch_size: 8}",
     "'batch_size' of torchtitan is training.micro_batch_size here; write micro_batch_size: 8"},
    {"training: {train_batch_size: auto}",
     "training.global_batch_size: for 'auto' write global_batch_size: 0"},
    {"lr: 1e-4",
     "'lr' of Megatron is optimizer.learning_rate here; write learning_rate: 1e-4 in section "
     "'optimizer'"},
    {"max_grad_norm: 1.0", "unknown key 'max_grad_norm'; 'max_grad_norm' belongs in section 'optimizer'"},
    {"training: {clip_grad: 1.0}",
     "'clip_grad' of Megatron is optimizer.max_grad_norm here; write max_grad_norm: 1.0 in "
     "section 'optimizer'"},
    {"training: {max_stps: 10}", "unknown key 'max_stps' in section 'training'; did you mean 'max_steps'?"},
    {"eval_strategy: epoch",
     "'eval_strategy' of Transformers is evaluation.every_epochs here; write every_epochs: 1 in section "
     "'evaluation'"},
    {"save_strategy: epoch",
     "'save_strategy' of Transformers is snapshot.every_epochs here; write every_epochs: 1 in section "
     "'snapshot'"},
    {"scheduler: {warmup_steps: 0.1}", "scheduler.warmup_steps: for '0.1' write warmup_ratio: 0.1"},
    {"training: {warmup_steps: 5e-2}",
     "unknown key 'warmup_steps'; write warmup_ratio: 5e-2 in section 'scheduler'"},
    {"num_warmup_steps: 0.1",
     "'num_warmup_steps' of Transformers is scheduler.warmup_ratio here; write warmup_ratio: 0.1 in section "
     "'scheduler'"},
    {"scheduler: {warmup: 10}", "'warmup' of PyTorch is scheduler.warmup_steps here; write warmup_steps: 10"},
    {"model: {attention_dropout: 0.1}",
     "'attention_dropout' is a key of Megatron; write the model's, as its config.json calls them, in section "
     "'model'; `recollect config "
     "reference` lists those of each type"},
    {"output: runs/a", "'output' of PyTorch is output_dir here; write output_dir: runs/a"},
    {"evaluation: {every_steps: epoch}", "evaluation.every_steps: for 'epoch' write every_epochs: 1"},
    {"save_total_limit: 3",
     "'save_total_limit' of Transformers is snapshot.keep here; write keep: 3 in section "
     "'snapshot'"},
    {"dataloader_num_workers: 4",
     "'dataloader_num_workers' is a key of Transformers; leave it out: batches are prepared "
     "by a thread, data.prefetch of them ahead"},
    {"data: {dataset: wikitext}",
     "'dataset' is a key of torchtitan; write path: FILE in section 'data'; there are no data "
     "sets by name"},
    {"sequence_len: 2048",
     "'sequence_len' of axolotl is data.sequence_length here; write sequence_length: 2048 in "
     "section 'data'"},
    {"sample_packing: true",
     "'sample_packing' of axolotl is data.packing here; write packing: within in section "
     "'data'; across lets documents of a sample attend to each other"},
    {"flash_attention: true",
     "'flash_attention' is a key of axolotl; leave it out: steps are planned as a whole, with "
     "kernels of their own"},
    {"adapter: lora", "'adapter' is a key of axolotl; write rank in section 'lora'"},
    {"base_model: bert-base",
     "'base_model' of axolotl is model.pretrained here; write pretrained: bert-base in "
     "section 'model'"},
    {"pipeline_model_parallel_size: 2",
     "'pipeline_model_parallel_size' is a key of Megatron; not supported: layers are not "
     "divided over ranks; parallelism.tensor_parallel_size divides each"},
    {"parallelism: {pp: 2}",
     "'pp' is a key of nanotron; not supported: layers are not divided over ranks; "
     "parallelism.tensor_parallel_size divides each"},
    {"lr_scheduler: {warmup_steps: 100, decay_ratio: 0.1}",
     "'warmup_steps' of torchtitan is scheduler.warmup_steps here; write warmup_steps: 100 in "
     "section 'scheduler'"},
    {"metrics: {log_freq: 10, enable_tensorboard: true}",
     "'log_freq' of torchtitan is logging.steps here; write steps: 10 in section 'logging'"},
    {"training: {steps: 1000, seq_len: 512}",
     "'steps' of torchtitan is training.max_steps here; write max_steps: 1000"},
    {"training: {compile: true}",
     "training.compile: 'true': it is of the lengths of data.padding; leave it out: programs "
     "are always compiled"},
    {"validation: {enable: true, freq: 100}",
     "'enable' is a key of torchtitan; write how many steps or epochs lie between two: every_steps or "
     "every_epochs; 0 is never"},
    {"activation_checkpoint: {mode: selective}",
     "'mode' is a key of torchtitan; write mode: every_k and k, or mode: selective and "
     "recompute, in section 'activation_checkpointing'"},
    {"tensorboard: {enabled: true, output_path: tb}",
     "'enabled' of DeepSpeed is logging.report_to here; write report_to: [jsonl, tensorboard] "
     "in section 'logging'"},
    {"steps_per_print: 10",
     "'steps_per_print' of DeepSpeed is logging.steps here; write steps: 10 in section "
     "'logging'"},
    {"num_processes: 4",
     "'num_processes' is a key of accelerate; start so many ranks: recollect run "
     "--nproc-per-node 4 train ..."},
    {"distributed_type: FSDP", "'distributed_type' is a key of accelerate; leave it out"},
    {"megatron_lm_config: {megatron_lm_tp_degree: 2}",
     "'megatron_lm_tp_degree' of accelerate is parallelism.tensor_parallel_size here; write "
     "tensor_parallel_size: 2 in section 'parallelism'"},
    {"distributed_timeout_minutes: 10",
     "'distributed_timeout_minutes' of Megatron is parallelism.timeout_seconds here; write "
     "timeout_seconds: 600 in section 'parallelism'"},
    {"max_lr: 1e-4",
     "'max_lr' of PyTorch is optimizer.learning_rate here; write learning_rate: 1e-4 in "
     "section 'optimizer'"},
    {"trainning: {seed: 1}", "unknown key 'trainning'; did you mean 'training'?"},
    {"task: text-classification", "task: for 'text-classification' write task: sequence_classification"},
    {"data: {format: parquet}",
     "data.format: 'parquet' is not supported: write the samples as jsonl, csv or text"},
    {"evaluation: {metrics: [acc]}", "evaluation.metrics: for 'acc' write metrics: accuracy"},
    {"disable_tqdm: true",
     "'disable_tqdm' of Transformers is logging.progress here; write progress: off in section "
     "'logging'"},
    {"warmup_ratio: 0.1", "unknown key 'warmup_ratio'; 'warmup_ratio' belongs in section 'scheduler'"},
    {"torch_dtype: bfloat16",
     "'torch_dtype' of Transformers is training.precision here; write precision: bf16 in "
     "section 'training'"},
    {"use_cpu: true",
     "'use_cpu' of Transformers is device.backend here; write backend: cpu in section 'device'"},
    {"training: {gradient_accumulation_steps: auto}",
     "training.gradient_accumulation_steps: for 'auto' write gradient_accumulation_steps: 0"},
    {"max_lr: 1e-3",
     "'max_lr' of PyTorch is optimizer.learning_rate here; write learning_rate: 1e-3 in "
     "section 'optimizer'"},
    {"training: {precision: tf32}",
     "training.precision: for 'tf32' write precision: fp32 and tf32: true in section 'device'"},
    {"data: {packing: true}",
     "data.packing: for 'true' write packing: within; across lets documents of a sample "
     "attend to each other"},
    {"numerics: {on_nonfinite: skip}",
     "unknown key 'on_nonfinite' in section 'numerics'; did you mean 'on_non_finite'?"},
    {"numerics: {on_non_finite: ignore}",
     "numerics.on_non_finite: expected one of stop, skip, rollback, found 'ignore'"},
    {"snapshot: {save_total_limit: 3}",
     "snapshot.keep has no effect with snapshot.every_steps 0 and snapshot.every_minutes 0: no snapshot is "
     "saved"},
    {"snapshot: {steps: 100}", "unknown key 'steps' in section 'snapshot'; did you mean 'every_steps'?"},
    {"snapshot: {keep: all}", "snapshot.keep: expected an integer, found 'all'"},
    {"profiling: {steps: 3}", "unknown key 'steps' in section 'profiling'; did you mean 'step'?"},
    {"debug: {anomaly_mode: true}",
     "'anomaly_mode' is a key of Transformers; leave it out: numerics.verify_every and "
     "activation_checkpointing.verify look for faults"},
    {"memory_report: {format: [html]}",
     "unknown key 'format' in section 'memory_report'; did you mean 'formats'?"},
    {"memory_report: {formats: [htm]}",
     "memory_report.formats: 'htm' is none of table, json, html, trace; did you mean 'html'?"},
    {"memory_report: {at: [begin]}", "memory_report.at: 'begin' is none of start, end, step:N"},
    {"logging: {log_level: info}", "'log_level' is a key of Transformers; leave it out: there is one level"},
    {"logging: {steps: every}", "logging.steps: expected an integer, found 'every'"},
    {"evaluation: {steps: 100}", "unknown key 'steps' in section 'evaluation'; did you mean 'every_steps'?"},
    {"checkpoint: {save_mode: true}",
     "unknown key 'save_mode' in section 'checkpoint'; did you mean 'save_model'?"},
    {"activation_checkpointing: {mode: fulll}",
     "activation_checkpointing.mode: expected one of none, full, every_k, sqrt, selective, recursive, "
     "constant_memory, auto, dtr, found 'fulll'; did you mean 'full'?"},
    {"parallelism: {communicator: gloo}", "parallelism.communicator: for 'gloo' write communicator: auto"},
    {"model: {type: gpt-2}",
     "model.type: expected one of gpt2, bert, llama, mistral, qwen2, qwen3, phi3, gpt_neox, gemma2, "
     "gemma3_text, roberta, xlm-roberta, distilbert, modernbert, found 'gpt-2'; did you mean 'gpt2'?"},
    {"model: {n_heads: 4}", "unknown key 'n_heads' in section 'model'; did you mean 'n_head'?"},
    {"activation_checkpointing: {mode: auto, memory_budget: 8GB}",
     "activation_checkpointing.memory_budget: expected bytes such as 4GiB, 512MiB or a plain integer, found "
     "'8GB'; write 8GiB, or 8000000000 for 8 GB"},
    {"device: {memory_limit: 1.5 gb}",
     "device.memory_limit: expected bytes such as 4GiB, 512MiB or a plain integer, found '1.5 gb'; write "
     "1536MiB, or 1500000000 for 1.5 GB"},
    {"device: {memory_limit: 80g}",
     "device.memory_limit: expected bytes such as 4GiB, 512MiB or a plain integer, found '80g'; write 80GiB"},
    {"device: {memory_limit: 2kg}",
     "device.memory_limit: expected bytes such as 4GiB, 512MiB or a plain integer, found '2kg'"},
    {"device: {threads: -1}", "device.threads: -1 is out of range; must be in [0, 4096]"},
    {"optimizer: {learning_rate: 1e-4f}",
     "optimizer.learning_rate: expected a finite decimal number, found '1e-4f'"},
    {"optimizer: {weight_decay: -0.1}", "optimizer.weight_decay: -0.1 is out of range; must be at least 0"},
    {"training: {epochs: three}", "training.epochs: expected a finite decimal number, found 'three'"},
    {"task: causal_lm\ntask: causal_lm", "duplicate key 'task', first given on line 2"},
    {"output-dir: runs/a", "unknown key 'output-dir'; did you mean 'output_dir'?"},
};

constexpr Mistake kOnTheCommandLine[] = {
    {"training.bf16=true",
     "'bf16' of Transformers is training.precision here; write training.precision=bf16"},
    {"bf16=true", "'bf16' of Transformers is training.precision here; write training.precision=bf16"},
    {"fp16=true",
     "'fp16' of Transformers is training.precision here; write training.precision=fp16 "
     "device.backend=cuda"},
    {"lr=1e-4", "'lr' of Megatron is optimizer.learning_rate here; write optimizer.learning_rate=1e-4"},
    {"max_steps=10", "unknown key 'max_steps'; write training.max_steps=10"},
    {"num_train_epochs=3",
     "'num_train_epochs' of Transformers is training.epochs here; write training.epochs=3"},
    {"device.backend=gpu", "device.backend: for 'gpu' write device.backend=cuda"},
    {"training.precision=float16", "training.precision: for 'float16' write training.precision=fp16"},
    {"optimizer.name=lamb",
     "optimizer.name: 'lamb' is not supported: adamw, adamw_hf, adam, sgd, lion, adafactor, "
     "adafactor_hf, muon, adamw8bit and lion8bit are"},
    {"optimizer=adamw_torch", "'optimizer' of axolotl is optimizer.name here; write optimizer.name=adamw"},
    {"fp16.enabled=true",
     "'fp16.enabled' of DeepSpeed is training.precision here; write training.precision=fp16 "
     "device.backend=cuda"},
    {"trainer.max_epochs=3", "'max_epochs' of Lightning is training.epochs here; write training.epochs=3"},
    {"report_to=tensorboard",
     "'report_to' of Transformers is logging.report_to here; write 'logging.report_to=[jsonl, "
     "tensorboard]'"},
    {"logging.report_to=none", "logging.report_to: for 'none' write 'logging.report_to=[]'"},
    {"gradient_checkpointing=true",
     "'gradient_checkpointing' of Transformers is activation_checkpointing.mode here; write "
     "activation_checkpointing.mode=full"},
    {"zero_optimization.stage=2",
     "'zero_optimization.stage' of DeepSpeed is parallelism.zero_stage here; write parallelism.zero_stage=2"},
    {"model.gradient_checkpointing=true",
     "'gradient_checkpointing' of Transformers is activation_checkpointing.mode here; write "
     "activation_checkpointing.mode=full"},
    {"resume=latest", "resume: for 'latest' write resume=auto"},
};

constexpr Mistake kToTheProgram[] = {
    {"estimate c.yaml --max_steps 10",
     "unrecognised option '--max_steps'; keys stand without dashes: write "
     "training.max_steps=10"},
    {"estimate c.yaml --max-steps=10",
     "unrecognised option '--max-steps=10'; keys stand without dashes: write "
     "training.max_steps=10"},
    {"estimate c.yaml --lr 1e-4",
     "unrecognised option '--lr'; keys stand without dashes: write "
     "optimizer.learning_rate=1e-4"},
    {"estimate c.yaml --bf16",
     "unrecognised option '--bf16'; 'bf16' of Transformers is training.precision here; write "
     "training.precision=bf16"},
    {"estimate c.yaml --num_train_epochs 3",
     "unrecognised option '--num_train_epochs'; keys stand without dashes: write training.epochs=3"},
    {"estimate c.yaml --training.max_steps 10",
     "unrecognised option '--training.max_steps'; keys stand without dashes: write "
     "training.max_steps=10"},
    {"estimate c.yaml --seed 1",
     "unrecognised option '--seed'; keys stand without dashes: write training.seed=1 or "
     "data.seed=1"},
    {"estimate c.yaml --hidden_size 64",
     "unrecognised option '--hidden_size'; keys stand without dashes: write model.n_embd=64"},
    {"estimate c.yaml --jsn", "unrecognised option '--jsn'; did you mean --json?"},
    {"estimate c.yaml --fast", "unrecognised option '--fast'"},
    {"estimate c.yaml --deepspeed ds.json",
     "unrecognised option '--deepspeed'; 'deepspeed' is a key of Transformers; recollect "
     "config import FILE reads it"},
    {"estimate c.yaml --resume",
     "unrecognised option '--resume'; keys stand without dashes: write resume=..."},
    {"estimate c.yaml --gradient_checkpointing true",
     "unrecognised option '--gradient_checkpointing'; 'gradient_checkpointing' of "
     "Transformers is activation_checkpointing.mode here; write "
     "activation_checkpointing.mode=full"},
    {"train --config c.yaml",
     "unrecognised option '--config'; the file stands alone: write recollect train c.yaml"},
    {"estimate --config_file=c.yaml --json",
     "unrecognised option '--config_file'; the file stands alone: write recollect estimate c.yaml"},
    {"config show -c c.yaml",
     "unrecognised option '-c'; the file stands alone: write recollect config show c.yaml"},
    {"train training.seed=1 --config",
     "unrecognised option '--config'; the file stands alone: write recollect train CONFIG.yaml"},
    {"tokenize --seed 1", "unrecognised option '--seed'"},
    {"run -n 2 train c.yaml", "unknown flag -n | write --nproc-per-node 2"},
    {"run -np 2 train c.yaml", "unknown flag -n | write --nproc-per-node 2"},
    {"run --num_processes 4 train c.yaml", "unknown flag --num-processes | write --nproc-per-node 4"},
    {"run --nproc-per-node 2 train --config c.yaml",
     "unrecognised option '--config'; the file stands alone: write recollect train c.yaml | usage: recollect "
     "run [flags] PROGRAM [arguments]"},
    {"run --num_gpus=4 train c.yaml", "unknown flag --num-gpus | write --nproc-per-node 4"},
    {"run --ntasks 4 train c.yaml", "unknown flag --ntasks | write --nproc-per-node 4"},
    {"trian c.yaml", "unknown command 'trian'; did you mean 'train'?"},
    {"c.yaml training.max_steps=2", "no command given; did you mean recollect train c.yaml ...?"},
    {"--config c.yaml", "no command given; did you mean recollect train c.yaml?"},
    {"--verison", "unknown option '--verison'; did you mean '--version'?"},
    {"profile c.yaml --steps 5",
     "unrecognised option '--steps'; keys stand without dashes: write training.max_steps=5"},
    {"evaluate c.yaml", "unknown command 'evaluate'; write recollect train CONFIG.yaml training.max_steps=0"},
    {"fit c.yaml", "unknown command 'fit'; write recollect train CONFIG.yaml"},
    {"launch train c.yaml",
     "unknown command 'launch'; write recollect run --nproc-per-node N train CONFIG.yaml"},
    {"config imprt x", "unknown word 'imprt' after config; did you mean 'import'?"},
    {"config import", "config import needs a file, and nothing else"},
    {"config import nothing.json", "nothing.json: cannot be read: No such file or directory"},
    {"torchrun train c.yaml",
     "unknown command 'torchrun'; write recollect run --nproc-per-node N train CONFIG.yaml"},
    {"run --nporc_per_node 2 train c.yaml", "unknown flag --nporc-per-node | did you mean --nproc-per-node?"},
    {"estimate c.yaml --save-steps=5",
     "unrecognised option '--save-steps=5'; keys stand without dashes: write snapshot.every_steps=5"},
    {"estimate c.yaml --per_device_train_batch_size 4",
     "unrecognised option '--per_device_train_batch_size'; keys stand without dashes: write "
     "training.micro_batch_size=4"},
    {"help", "unknown command 'help'; write recollect --help"},
};
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string without(const std::string& text, const std::string& start) {
  EXPECT_EQ(text.find(start), 0u) << text;
  return text.substr(start.size());
}

// What follows the place in the first line of a refusal.
std::string behind_place(const std::string& message) {
  const std::string line = without(first_line(message), "c.yaml:");
  return line.substr(line.find(": ") + 2);
}

TEST(Mistakes, InTheFileAreAnswered) {
  for (const Mistake& mistake : kInTheFile) {
    const std::string text = std::string(mistake.said) + "\n";
    EXPECT_EQ(behind_place(refusal(text.starts_with("data:") ? text : kLeast + text)), mistake.answer)
        << mistake.said;
  }
}

TEST(Mistakes, OnTheCommandLineAreAnswered) {
  for (const Mistake& mistake : kOnTheCommandLine)
    EXPECT_EQ(without(first_line(refusal(kLeast, {mistake.said})),
                      std::string("command line: ") + mistake.said + ": "),
              mistake.answer);
}

Words words_of_line(const std::string& line) {
  Words words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// What the program says; of `run`, which starts nothing here, the hint too. A process of its own: the launcher blocks
// signals, which later tests' processes would inherit.
std::string program_says(const Workplace& place, const Words& words) {
  const Finished finished = place.recollect(words);
  EXPECT_EQ(finished.status, 2);
  const std::string said = without(first_line(finished.err), "recollect: ");
  if (words[0] != "run") return said;
  const std::string hint = first_line(finished.err.substr(finished.err.find('\n') + 1));
  return said + " | " + without(hint, "  ");
}

TEST(Mistakes, InOptionsAndCommandsAreAnswered) {
  const Workplace place;
  for (const Mistake& mistake : kToTheProgram)
    EXPECT_EQ(program_says(place, words_of_line(mistake.said)), mistake.answer) << mistake.said;
}

}  // namespace
}  // namespace recollect::test::mistakes_test
