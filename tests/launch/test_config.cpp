// Reading YAML: what each key accepts, and exactly what is said, and where, about what it does not.
#include <algorithm>
#include <cctype>

#include "launch/config/keys.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_test {
namespace {

TEST(Config, DefaultsAreCompleteAndDerived) {
  const Config c = accepted(kLeast);
  EXPECT_EQ(c.model.values.integer("vocab_size"), 50257);
  EXPECT_EQ(c.model.values.integer("n_inner"), 4 * 768);
  EXPECT_EQ(c.data.sequence_length, 1024);
  EXPECT_EQ(c.data.high, 50257);
  EXPECT_EQ(c.data.seed, c.training.seed);
  EXPECT_EQ(c.parallelism.tensor_parallel_size, 1);
  EXPECT_EQ(c.training.precision, Precision::kFP32);
  EXPECT_FALSE(c.optimizer.decay_all);
}

TEST(Config, ReadsEveryKindOfValue) {
  const Config c = accepted(R"(
model: {hidden_size: 96, num_hidden_layers: 3, num_attention_heads: 6, max_position_embeddings: 64,
        intermediate_size: 100, activation_function: gelu, resid_pdrop: .25, layer_norm_epsilon: 1e-6}
parallelism: {tp: 2, sequence_parallel: true, communicator: local, ranks_per_process: 2, data_parallel_size: 2}
device: {backend: reference, memory_limit: 4GiB}
training:
  per_device_train_batch_size: 4
  train_batch_size: 32
  train_iters: 7
  precision: "fp64"
  seed: 9223372036854775807
optimizer: {name: adamw_hf, lr: 1e-4, beta1: 0, weight_decay: 1, clip_grad: 0, decay_all: true}
scheduler: {name: linear, warmup_ratio: 0.1, min_lr: +1.5E-5}
data: {format: tokens, path: [a.bin, "b c.bin"], seq_length: 32, shuffle: false, dtype: uint16}
checkpoint: {save_model: true}
logging: {steps: 5, progress: off}
debug: {dump_gradients: g.safetensors, dump_step: 3}
output_dir: runs/x
)");
  EXPECT_EQ(c.model.values.integer("n_embd"), 96);
  EXPECT_EQ(c.model.values.integer("n_layer"), 3);
  EXPECT_EQ(c.model.values.integer("n_head"), 6);
  EXPECT_EQ(c.model.values.integer("n_positions"), 64);
  EXPECT_EQ(c.model.values.integer("n_inner"), 100);
  EXPECT_EQ(c.model.values.text("activation_function"), "gelu");
  EXPECT_EQ(c.model.values.real("resid_pdrop"), 0.25);
  EXPECT_EQ(c.model.values.real("layer_norm_epsilon"), 1e-6);
  EXPECT_EQ(c.parallelism.communicator, CommunicatorKind::kLocal);
  EXPECT_EQ(c.device.backend, BackendKind::kReference);
  EXPECT_EQ(c.device.memory_limit, int64_t{4} << 30);
  EXPECT_EQ(c.training.micro_batch_size, 4);
  EXPECT_EQ(c.training.gradient_accumulation_steps, 4);
  EXPECT_EQ(c.training.max_steps, 7);
  EXPECT_EQ(c.training.precision, Precision::kFP64);
  EXPECT_EQ(c.training.seed, 9223372036854775807);
  EXPECT_EQ(c.data.seed, 9223372036854775807);
  EXPECT_EQ(c.optimizer.name, "adamw_hf");
  EXPECT_EQ(c.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(c.optimizer.max_grad_norm, 0);
  EXPECT_EQ(c.scheduler.min_lr, 1.5e-5);
  EXPECT_EQ(c.data.path, (std::vector<std::string>{"a.bin", "b c.bin"}));
  EXPECT_EQ(c.data.sequence_length, 32);
  EXPECT_EQ(c.data.dtype, TokenDtype::kU16);
  EXPECT_EQ(c.logging.progress, ProgressStyle::kOff);
  EXPECT_EQ(c.debug.dump_step, 3);
  EXPECT_EQ(c.output_dir, "runs/x");
}

struct Case {
  const char* text;      // after kLeast's one line, so the first line of the text is line 2
  const char* expected;  // the whole message
};

class Refused : public testing::TestWithParam<Case> {};

TEST_P(Refused, SaysWhatAndWhere) { EXPECT_EQ(refusal(kLeast + GetParam().text), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    Keys, Refused,
    testing::Values(
        Case{"trainning: {seed: 1}\n", "c.yaml:2:1: unknown key 'trainning'; did you mean 'training'?"},
        Case{"training: {max_step: 1}\n",
             "c.yaml:2:12: unknown key 'max_step' in section 'training'; did you mean 'max_steps'?"},
        Case{"training: {max-steps: 1}\n",
             "c.yaml:2:12: unknown key 'max-steps' in section 'training'; did you mean 'max_steps'?"},
        Case{"training:\n  learning_rate: 1\n",
             "c.yaml:3:3: unknown key 'learning_rate' in section 'training'; 'learning_rate' belongs in "
             "section "
             "'optimizer'"},
        Case{"training:\n  leanring_rate: 1\n",
             "c.yaml:3:3: unknown key 'leanring_rate' in section 'training'; did you mean 'learning_rate' in "
             "section 'optimizer'?"},
        Case{"max_steps: 1\n",
             "c.yaml:2:1: unknown key 'max_steps'; 'max_steps' belongs in section 'training'"},
        Case{"seed: 1\n", "c.yaml:2:1: unknown key 'seed'; 'seed' belongs in section 'training' or 'data'"},
        Case{"training.seed: 1\n",
             "c.yaml:2:1: unknown key 'training.seed'; write 'training.seed' inside the section"},
        Case{"training: {optimizer: {lr: 1}}\n",
             "c.yaml:2:12: unknown key 'optimizer' in section 'training'; 'optimizer' is a section of the "
             "top level"},
        Case{"checkpoint: {output_dir: x}\n",
             "c.yaml:2:14: unknown key 'output_dir' in section 'checkpoint'; 'output_dir' belongs at the top "
             "level"},
        Case{"model: {zzzzzzzz: 1}\n", "c.yaml:2:9: unknown key 'zzzzzzzz' in section 'model'"},
        Case{"training: {seed: 1, seed: 2}\n", "c.yaml:2:21: duplicate key 'seed', first given on line 2"},
        Case{"model: {n_embd: 768}\nmodel: {n_layer: 1}\n",
             "c.yaml:3:1: duplicate key 'model', first given on line 2"},
        Case{"optimizer: {lr: 1, learning_rate: 1}\n",
             "c.yaml:2:20: 'lr' and 'learning_rate' are the same key"},
        Case{"training: 3\n", "c.yaml:2:11: section 'training' must hold keys, found '3'"},
        Case{"training:\n", "c.yaml:2:1: section 'training' must hold keys, found nothing"},
        Case{"disk_checkpointing: {path: x}\n",
             "c.yaml:2:1: unknown key 'disk_checkpointing'; 'disk_checkpointing' belongs in section "
             "'activation_checkpointing'"},
        Case{"activation_checkpointing: {disk_checkpoint: {path: x}}\n",
             "c.yaml:2:28: unknown key 'disk_checkpoint' in section 'activation_checkpointing'; did you mean "
             "'disk_checkpointing'?"},
        Case{"activation_checkpointing: {disk_checkpointing: {pth: x}}\n",
             "c.yaml:2:49: unknown key 'pth' in section 'activation_checkpointing.disk_checkpointing'; did "
             "you mean "
             "'path'?"},
        Case{"activation_checkpointing:\n  disk_checkpointing: x\n",
             "c.yaml:3:23: section 'activation_checkpointing.disk_checkpointing' must hold keys, found 'x'"},
        Case{"activation_checkpointing:\n  disk_checkpointing:\n",
             "c.yaml:3:3: section 'activation_checkpointing.disk_checkpointing' must hold keys, found "
             "nothing"},
        Case{"activation_checkpointing.disk_checkpointing: {path: x}\n",
             "c.yaml:2:1: unknown key 'activation_checkpointing.disk_checkpointing'"},
        Case{"activation_checkpointing: {disk_checkpointing: {path: x, path: y}}\n",
             "c.yaml:2:58: duplicate key 'path', first given on line 2"},
        Case{"activation_checkpointing: {disk_checkpointing: {limit: lots}}\n",
             "c.yaml:2:56: activation_checkpointing.disk_checkpointing.limit: expected bytes such as 4GiB, "
             "512MiB or a "
             "plain integer, found 'lots'"},
        Case{"activation_checkpointing: {disk_checkpointing: {limit: 1GiB}}\n",
             "c.yaml:2:56: activation_checkpointing.disk_checkpointing.limit has no effect with "
             "activation_checkpointing.disk_checkpointing.path \"\": no activation is saved on the disk"},
        Case{"training: [seed]\n", "c.yaml:2:11: section 'training' must hold keys, found a list"},
        Case{"? [a]\n: b\n", "c.yaml:2:3: a key must be a word, found a list"}));

INSTANTIATE_TEST_SUITE_P(
    Values, Refused,
    testing::Values(
        Case{"training: {seed: 010}\n",
             "c.yaml:2:18: training.seed: expected a decimal integer without leading zeros, found '010'"},
        Case{"training: {seed: 0x10}\n", "c.yaml:2:18: training.seed: expected an integer, found '0x10'"},
        Case{"training: {seed: 1_000}\n", "c.yaml:2:18: training.seed: expected an integer, found '1_000'"},
        Case{"training: {seed: 1e3}\n", "c.yaml:2:18: training.seed: expected an integer, found '1e3'"},
        Case{"training: {seed: 1.0}\n", "c.yaml:2:18: training.seed: expected an integer, found '1.0'"},
        Case{"training: {seed: \"1\"}\n",
             "c.yaml:2:18: training.seed: expected an integer, found the text \"1\""},
        Case{"training: {seed: -1}\n", "c.yaml:2:18: training.seed: -1 is out of range; must be at least 0"},
        Case{"training: {seed: 9223372036854775808}\n",
             "c.yaml:2:18: training.seed: 9223372036854775808 is more than 64 bits hold"},
        Case{"training: {seed: }\n", "c.yaml:2:18: training.seed: expected an integer, found nothing"},
        Case{"training: {seed: null}\n", "c.yaml:2:18: training.seed: expected an integer, found nothing"},
        Case{"training: {seed: [1]}\n", "c.yaml:2:18: training.seed: expected an integer, found a list"},
        Case{"training: {seed: true}\n", "c.yaml:2:18: training.seed: expected an integer, found 'true'"},
        Case{"training: {max_steps: 0}\n",
             "c.yaml:2:23: training.max_steps 0 trains nothing, and nothing is evaluated either: give "
             "evaluation.path"},
        Case{"training: {max_steps: -2}\n",
             "c.yaml:2:23: training.max_steps: -2 is out of range; must be in [0, 2147483647]"},
        Case{"optimizer: {lr: .nan}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a finite decimal number, found '.nan'"},
        Case{"optimizer: {lr: -.inf}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a finite decimal number, found '-.inf'"},
        Case{"optimizer: {lr: inf}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a finite decimal number, found 'inf'"},
        Case{"optimizer: {lr: 0x1p-3}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a finite decimal number, found '0x1p-3'"},
        Case{"optimizer: {lr: 01.5}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a decimal number without leading zeros, found "
             "'01.5'"},
        Case{"optimizer: {lr: 1e}\n",
             "c.yaml:2:17: optimizer.learning_rate: expected a finite decimal number, found '1e'"},
        Case{"optimizer: {lr: 1e999}\n",
             "c.yaml:2:17: optimizer.learning_rate: 1e999 is not a number that double precision can hold"},
        Case{"optimizer: {beta1: 1}\n", "c.yaml:2:20: optimizer.beta1: 1 is out of range; must be in [0, 1)"},
        Case{"model: {layer_norm_epsilon: 0}\n",
             "c.yaml:2:29: model.layer_norm_epsilon: 0 is out of range; must be greater than 0"},
        Case{"checkpoint: {save_model: yes}\n",
             "c.yaml:2:26: checkpoint.save_model: expected true or false, found 'yes'"},
        Case{"training: {precision: bf61}\n",
             "c.yaml:2:23: training.precision: expected one of fp32, bf16, fp64, fp16, found 'bf61'; did you "
             "mean "
             "'bf16'?"},
        Case{"model: {type: rwkv}\n",
             "c.yaml:2:15: model.type: expected one of gpt2, bert, llama, mistral, qwen2, qwen3, phi3, "
             "gpt_neox, gemma2, gemma3_text, roberta, xlm-roberta, distilbert, modernbert, found "
             "'rwkv'"},
        Case{"device: {memory_limit: 4GB}\n",
             "c.yaml:2:24: device.memory_limit: expected bytes such as 4GiB, 512MiB or a plain integer, "
             "found '4GB'; write 4GiB, or 4000000000 for 4 GB"},
        Case{"device: {memory_limit: 99999999TiB}\n",
             "c.yaml:2:24: device.memory_limit: 99999999TiB is more than 64 bits hold"},
        Case{"output_dir: ''\n", "c.yaml:2:13: output_dir: must not be empty"},
        Case{"output_dir: [a]\n", "c.yaml:2:13: output_dir: expected text, found a list"}));

INSTANTIATE_TEST_SUITE_P(
    Structure, Refused,
    testing::Values(
        Case{"model: &m {n_layer: 1}\n",
             "c.yaml:2:8: anchors (&name) are not supported; write the value again"},
        Case{"training: {seed: !!int 1}\n", "c.yaml:2:18: tags (!name) are not supported"},
        Case{"training: {max_steps: &n 1, seed: *n}\n",
             "c.yaml:2:23: anchors (&name) are not supported; write the value again\n"
             "c.yaml:2:35: aliases (*name) are not supported; write the value again"},
        Case{"<<: {seed: 1}\n", "c.yaml:2:1: unknown key '<<'"},
        Case{"---\nmodel: {n_layer: 1}\n", "c.yaml:2:1: a second document; a configuration is one document"},
        Case{"training: {seed: 1\n", "c.yaml:3:1: end of map flow not found"},
        Case{"model:\n\tn_layer: 1\n", "c.yaml:3:9: illegal map value; indent with spaces, not tabs"},
        Case{"a: \xff\n", "c.yaml:2:4: byte 0xff is not UTF-8 text"},
        Case{"a: \x01\n", "c.yaml:2:4: byte 0x01 is not UTF-8 text"}));

INSTANTIATE_TEST_SUITE_P(
    Together, Refused,
    testing::Values(
        Case{"model: {n_embd: 10, n_head: 3}\n",
             "c.yaml:2:29: model.n_embd 10 is not a multiple of model.n_head 3"},
        Case{"parallelism: {tp: 5}\n",
             "c.yaml:2:19: model.n_head 12 is not a multiple of parallelism.tensor_parallel_size 5\n"
             "c.yaml:2:19: model.n_inner 3072 is not a multiple of parallelism.tensor_parallel_size 5"},
        Case{"model: {tie_word_embeddings: false}\n",
             "c.yaml:2:30: model.tie_word_embeddings: only true is supported"},
        Case{"model: {n_positions: 8}\ntraining: {seed: x}\n"
             "logging: {progress: onn}\n",
             "c.yaml:3:18: training.seed: expected an integer, found 'x'\n"
             "c.yaml:4:21: logging.progress: expected one of auto, on, off, found 'onn'; did you mean 'on'?"},
        Case{"activation_checkpointing: {mode: poorr}\n",
             "c.yaml:2:34: activation_checkpointing.mode: expected one of none, full, every_k, sqrt, "
             "selective, "
             "recursive, constant_memory, auto, dtr, found 'poorr'; did you mean 'constant_memory'?"},
        Case{"parallelism: {sequence_parallel: true}\n",
             "c.yaml:2:34: parallelism.sequence_parallel has no effect with parallelism.tensor_parallel_size "
             "1: tokens are divided over tensor ranks"},
        Case{"parallelism: {sequence_parallel: true, tp: 2}\ntraining: {micro_batch_size: 1}\n"
             "model: {n_positions: 5}\n",
             "c.yaml:2:34: sequence parallelism divides the tokens of a micro-batch, 1 x 5 = 5, by "
             "parallelism.tensor_parallel_size 2, which does not divide them"},
        Case{"parallelism: {communicator: self, data_parallel_size: 2}\n",
             "c.yaml:2:29: parallelism.communicator self is a world of one rank, but 2 are asked for"},
        Case{"training: {precision: fp64}\n",
             "c.yaml:2:23: training.precision fp64 needs device.backend reference, not cpu"},
        Case{"training: {precision: bf16}\ndevice: {backend: reference}\n",
             "c.yaml:2:23: training.precision bf16 needs device.backend cpu or cuda, not reference"},
        Case{"device: {backend: cuda}\n",
             "c.yaml:2:19: device.backend cuda: this build has no CUDA backend: `recollect estimate` and "
             "`explain` predict such a run here; to run it, configure with -DRECOLLECT_CUDA=ON (CMake preset "
             "cuda), which needs nvcc"},
        Case{"scheduler: {warmup_steps: 1, warmup_ratio: 0.1}\n",
             "c.yaml:2:27: scheduler.warmup_steps and scheduler.warmup_ratio are both given; give one"},
        Case{"parallelism: {tp: 4, data_parallel_size: 1048576}\n",
             "c.yaml:2:42: parallelism.tensor_parallel_size 4 x parallelism.data_parallel_size 1048576 = "
             "4194304 ranks; a world has at most 1048576"},
        Case{"training: {loss_scale: -0.5}\n",
             "c.yaml:2:24: training.loss_scale -0.5: below 0 there is only -1, the precision's own way"},
        Case{"scheduler: {min_lr: 1, name: linear}\n",
             "c.yaml:2:21: scheduler.min_lr 1 is above optimizer.learning_rate 0.0003"},
        Case{"training: {micro_batch_size: 3, global_batch_size: 32, gradient_accumulation_steps: 2}\n"
             "parallelism: {data_parallel_size: 4}\n",
             "c.yaml:2:52: training.global_batch_size 32 is not micro_batch_size 3 x "
             "gradient_accumulation_steps 2 "
             "x data_parallel_size 4 = 24"},
        Case{"training: {micro_batch_size: 3, global_batch_size: 32}\nparallelism: {data_parallel_size: 4}\n",
             "c.yaml:2:52: training.global_batch_size 32 is not a multiple of micro_batch_size 3 x "
             "data_parallel_size 4 = 12"},
        Case{"debug: {dump_gradients: g, dump_step: 101}\n",
             "c.yaml:2:39: debug.dump_step 101 is after the last step, training.max_steps 100"}));

TEST(Config, SectionsStandInSections) {
  const Config c = accepted(
      kLeast + "activation_checkpointing: {mode: full, disk_checkpointing: {path: /d, limit: 2GiB}}\n",
      {"activation_checkpointing.disk_checkpointing.path=/e"});
  EXPECT_EQ(c.activation_checkpointing.disk_checkpointing.path, "/e");
  EXPECT_EQ(c.activation_checkpointing.disk_checkpointing.limit, int64_t{2} << 30);
  const std::string dumped = dump_resolved(c);
  EXPECT_NE(dumped.find("\n  disk_checkpointing:\n    path: /e\n    limit: 2GiB\ndata:\n"), std::string::npos)
      << dumped;
  EXPECT_EQ(flatten(accepted(dumped)), flatten(c));
}

TEST(Config, CheckpointingInTheFileGivesWayToTheCommandLine) {
  const auto with = [](const std::string& keys, const std::string& word) {
    return accepted(kLeast + "activation_checkpointing: {" + keys + "}\n", {word}).activation_checkpointing;
  };
  const std::string mode = "activation_checkpointing.mode=", limit = "}\ndevice: {memory_limit: 1GiB";
  EXPECT_EQ(with("mode: every_k, k: 1", mode + "full").k, 0);
  EXPECT_TRUE(with("mode: selective, recompute: [attention]", mode + "none").recompute.empty());
  EXPECT_EQ(with("mode: auto, memory_budget: 1GiB", mode + "full").memory_budget, 0);
  EXPECT_FALSE(with("mode: full, verify: true", mode + "none").verify);
  EXPECT_TRUE(with("mode: full, cpu_checkpointing: true, verify: true", mode + "none").verify);
  EXPECT_EQ(with("mode: full, number_checkpoints: 12" + limit, mode + "auto").number_checkpoints, 0);
  EXPECT_EQ(with("mode: full, storage_dtype: bf16" + limit, mode + "auto").storage_dtype,
            StorageDType::kSame);
  EXPECT_FALSE(with("mode: full, partition_activations: true" + limit, mode + "auto").partition_activations);
  const CheckpointingSettings planned =
      with("mode: auto, memory_budget: 1GiB, host_memory_budget: 1GiB, keep_last: 1", mode + "none");
  EXPECT_EQ(planned.host_memory_budget, 0);
  EXPECT_EQ(planned.keep_last, -1);
  EXPECT_EQ(with("cpu_checkpointing: true, prefetch: 2", "activation_checkpointing.cpu_checkpointing=false")
                .prefetch,
            -1);
  EXPECT_EQ(refusal(kLeast + "activation_checkpointing: {verify: true}\n"),
            "c.yaml:2:36: activation_checkpointing.verify has no effect: nothing is recomputed, gathered or "
            "brought back");
  const Config alone = accepted(kLeast +
                                    "parallelism: {tensor_parallel_size: 2}\n"
                                    "activation_checkpointing: {mode: full, partition_activations: true}\n",
                                {"parallelism.tensor_parallel_size=1"});
  EXPECT_FALSE(alone.activation_checkpointing.partition_activations);
  ASSERT_EQ(alone.given_way.size(), 1u);
  EXPECT_NE(alone.given_way.front().find(
                "nobody to share saved activations with; the command line has the last word"),
            std::string::npos)
      << alone.given_way.front();
}

// Of a mode and a plan the one on the command line stands; within the file that is said once.
TEST(Config, APlanAndAModeGiveWayToEachOther) {
  const std::string of_mode =
                        kLeast + "activation_checkpointing: {mode: every_k, k: 2, cpu_checkpointing: true}\n",
                    of_plan = kLeast + "activation_checkpointing: {plan: p.yaml}\n";
  const Config planned = accepted(of_mode, {"activation_checkpointing.plan=p.yaml"});
  EXPECT_EQ(planned.activation_checkpointing.mode, CheckpointingMode::kNone);
  EXPECT_EQ(planned.activation_checkpointing.k, 0);
  EXPECT_FALSE(planned.activation_checkpointing.cpu_checkpointing);
  EXPECT_EQ(planned.given_way.size(), 3u);
  const Config named = accepted(of_plan, {"activation_checkpointing.mode=full"});
  EXPECT_EQ(named.activation_checkpointing.plan, "");
  EXPECT_EQ(named.given_way.size(), 1u);
  const std::string both = refusal(kLeast + "activation_checkpointing: {mode: full, plan: p.yaml}\n");
  EXPECT_NE(both.find("mode must not be given with it"), std::string::npos) << both;
  EXPECT_EQ(both.find("mode must not be given with it"), both.rfind("mode must not be given with it"))
      << both;
}

TEST(Config, WhatTheFileSaysGivesWayToTheCommandLine) {
  const std::string file =
      kLeast + "profiling: {step: 8}\nmemory_report: {at: [step:4, step:9, end]}\noptimizer: {beta1: 0.8}\n";
  EXPECT_TRUE(accepted(file).given_way.empty());
  const Config c = accepted(file, {"training.max_steps=5", "optimizer.name=sgd"});
  EXPECT_EQ(c.profiling.step, 3);
  EXPECT_EQ(c.memory_report.at, (std::vector<std::string>{"step:4", "end"}));
  EXPECT_EQ(c.optimizer.beta1, Config().optimizer.beta1);
  ASSERT_EQ(c.given_way.size(), 3u);
  for (
      const char* sentence :
      {"c.yaml:2:19: profiling.step 8 is after the last step, training.max_steps 5; the command line has the "
       "last word, and this run has profiling.step=3",
       "c.yaml:3:21: memory_report.at: step:9 is after the last step, training.max_steps 5; the command line "
       "has the last word, and this run has memory_report.at=",
       "c.yaml:4:20: optimizer.beta1 has no effect with optimizer.name sgd: "})
    EXPECT_EQ(std::count_if(c.given_way.begin(), c.given_way.end(),
                            [&](const std::string& said) { return said.starts_with(sentence); }),
              1)
        << sentence;
  EXPECT_EQ(accepted(kLeast + "memory_report: {at: [end]}\n", {"memory_report.formats=[]"}).memory_report.at,
            Config().memory_report.at);
  const std::string dump = "debug: {dump_gradients: g, dump_step: 8}\n";
  EXPECT_EQ(accepted(kLeast + dump, {"training.max_steps=5"}).debug.dump_step, 5);
  EXPECT_EQ(accepted(kLeast + dump, {"debug.dump_gradients="}).debug.dump_step, 1);
  // What stands in one place contradicts itself as ever.
  const std::string late = "profiling.step 8 is after the last step, training.max_steps 5";
  EXPECT_EQ(refusal(kLeast + "profiling: {step: 8}\ntraining: {max_steps: 5}\n"), "c.yaml:2:19: " + late);
  EXPECT_EQ(refusal(kLeast, {"training.max_steps=5", "profiling.step=8"}),
            "command line: profiling.step=8: " + late);
  EXPECT_EQ(refusal(kLeast + "training: {max_steps: 5}\n", {"profiling.step=8"}),
            "command line: profiling.step=8: " + late);
}

TEST(Config, RefusesWhatDataCannotBe) {
  EXPECT_EQ(refusal("data: {format: jsonl}"),
            "c.yaml:1:16: data.path is missing; data.format jsonl reads files");
  EXPECT_EQ(refusal("output_dir: x"), "c.yaml: data.path is missing; data.format text reads files");
  EXPECT_EQ(refusal("data: {format: jsonl, path: []}"),
            "c.yaml:1:29: data.path is missing; data.format jsonl reads files");
  EXPECT_EQ(refusal("data: {format: text, path: x}\nmodel: {vocab_size: 255}"),
            "c.yaml:2:21: data.format text has 256 token ids, model.vocab_size 255 is less");
  EXPECT_EQ(refusal("data: {format: random, low: 9, high: 9}"),
            "c.yaml:1:29: data.low 9 is not below data.high 9");
  EXPECT_EQ(refusal("data: {format: random, high: 50258}"),
            "c.yaml:1:30: data.high 50258 is above model.vocab_size 50257");
  EXPECT_EQ(refusal("data: {format: random, sequence_length: 1025}"),
            "c.yaml:1:41: data.sequence_length 1025 is above model.n_positions 1024");
}

TEST(Config, RefusesWhatIsNoMappingOfSections) {
  EXPECT_EQ(refusal(""), "c.yaml:1:1: empty; a configuration is a mapping of sections");
  EXPECT_EQ(refusal("# only a comment\n"), "c.yaml:1:1: empty; a configuration is a mapping of sections");
  EXPECT_EQ(refusal("hello"), "c.yaml:1:1: expected a mapping of sections, found 'hello'");
  EXPECT_EQ(refusal("- model\n"), "c.yaml:1:1: expected a mapping of sections, found a list");
}

TEST(Config, ReportsEverythingInOnePassInTheOrderOfTheFile) {
  EXPECT_EQ(refusal("model: {n_embd: ten, n_haed: 2}\n"
                    "parallelism: {tp: 0}\n"
                    "data: {format: random, sequence_length: 4096}\n"
                    "foo: 1\n",
                    {"training.seed=x"}),
            "c.yaml:1:17: model.n_embd: expected an integer, found 'ten'\n"
            "c.yaml:1:22: unknown key 'n_haed' in section 'model'; did you mean 'n_head'?\n"
            "c.yaml:2:19: parallelism.tensor_parallel_size: 0 is out of range; must be in [1, 65536]\n"
            "c.yaml:3:41: data.sequence_length 4096 is above model.n_positions 1024\n"
            "c.yaml:4:1: unknown key 'foo'\n"
            "command line: training.seed=x: training.seed: expected an integer, found 'x'");
}

TEST(Config, ManyErrorsAreCounted) {
  std::string text;
  for (int i = 0; i < 250; ++i) text += "zz" + std::to_string(i) + ": 1\n";
  const std::string message = refusal(text);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 100);
  EXPECT_NE(message.find("... and "), std::string::npos);
}

TEST(Config, AMissingFileIsAConfigurationError) {
  try {
    read_config("no/such/file.yaml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_STREQ(error.what(), "no/such/file.yaml: cannot be read: No such file or directory");
  }
  EXPECT_THROW(read_config("/"), Error);
}

TEST(Config, TheRepositorysFilesAreGood) {
  const std::string folder = std::string(RECOLLECT_SOURCE_DIR) + "/configs/";
  Config tiny = read_config(folder + "gpt2-tiny.yaml");
  resolve_world(tiny, 2);
  EXPECT_EQ(tiny.training.global_batch_size, 8);
  Config large = read_config(folder + "gpt2-124m.yaml", {"training.precision=bf16"});
  resolve_world(large, 1);
  EXPECT_EQ(large.training.global_batch_size, 2);
  Config bert = read_config(folder + "bert-large.yaml", {"training.micro_batch_size=1"});
  resolve_world(bert, 1);
  EXPECT_EQ(bert.task, Task::kSequenceClassification);
  EXPECT_EQ(bert.training.global_batch_size, 1);
  Config llama = read_config(folder + "llama-160m.yaml");
  resolve_world(llama, 2);
  EXPECT_EQ(llama.data.sequence_length, 512);
  EXPECT_EQ(llama.training.global_batch_size, 4);
  Config tensor = read_config(folder + "llama-8b-tensor8.yaml", {}, {.cuda = true});
  resolve_world(tensor, 8);
  EXPECT_EQ(tensor.training.global_batch_size, 1);
  Config zero = read_config(folder + "llama-8b-zero3.yaml", {}, {.cuda = true});
  resolve_world(zero, 8);
  EXPECT_EQ(zero.training.global_batch_size, 16);
}

TEST(ConfigKeys, EveryKeyIsDescribedAndFoundByEachName) {
  const KeyTable table;
  const auto lower = [](const std::string& text) {
    return std::none_of(text.begin(), text.end(), ::isupper);
  };
  for (const ConfigKey& key : table.keys()) {
    EXPECT_FALSE(key.help.empty()) << key.path();
    EXPECT_TRUE(lower(key.name)) << key.path();
    EXPECT_EQ(table.find(key.section, key.name), &key) << key.path();
    for (const std::string& alias : key.aliases) EXPECT_EQ(table.find(key.section, alias), &key) << alias;
  }
}

}  // namespace
}  // namespace recollect::test::config_test
