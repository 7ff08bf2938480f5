// No key without effect: each one that was given for nothing is refused with the reason, and none is refused
// whose value is the one it would have had anyway.
#include "launch/config/hf_config.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_inert_test {
namespace {

struct ConfigInertCase {
  const char* text;      // after kLeast's one line
  const char* expected;  // the whole message
};

class Inert : public ::testing::TestWithParam<ConfigInertCase> {};

TEST_P(Inert, SaysWhy) { EXPECT_EQ(refusal(kLeast + GetParam().text), GetParam().expected); }

TEST(InertLengths, SayWhy) {
  EXPECT_EQ(refusal("data: {format: random, padding: longest}\n"),
            "c.yaml:1:33: data.padding has no effect with data.format random: all its samples are of "
            "data.sequence_length");
  EXPECT_EQ(refusal("data: {format: jsonl, path: x, pad_to_multiple_of: 8, group_by_length: true}\n"
                    "training: {compile: ahead}\n"),
            "c.yaml:1:52: data.pad_to_multiple_of has no effect with data.padding max: there is one length, "
            "data.sequence_length\n"
            "c.yaml:1:72: data.group_by_length has no effect with data.padding max: there is one length, "
            "data.sequence_length\n"
            "c.yaml:2:21: training.compile has no effect with data.padding max: there is one length, "
            "data.sequence_length");
  EXPECT_EQ(
      refusal("data: {format: jsonl, path: x, padding: bucket, sequence_length: 64}\n"),
      "c.yaml:1:41: data.padding has no effect with data.pad_to_multiple_of 64 and data.sequence_length "
      "64: every sequence is padded to data.sequence_length");
}

INSTANTIATE_TEST_SUITE_P(
    Keys, Inert,
    ::testing::Values(
        ConfigInertCase{
            "checkpoint: {max_shard_size: 1MiB}",
            "c.yaml:2:30: checkpoint.max_shard_size has no effect with checkpoint.save_model false "
            "and checkpoint.save_best_model false: no model is saved"},
        ConfigInertCase{"optimizer: {momentum: 0.9}\n",
                        "c.yaml:2:23: optimizer.momentum has no effect with optimizer.name adamw: only sgd "
                        "and muon have momentum"},
        ConfigInertCase{
            "optimizer: {name: sgd, beta1: 0.8, beta2: 0.9, epsilon: 1e-6}\n",
            "c.yaml:2:31: optimizer.beta1 has no effect with optimizer.name sgd: sgd keeps no moments\n"
            "c.yaml:2:43: optimizer.beta2 has no effect with optimizer.name sgd: sgd keeps no moments\n"
            "c.yaml:2:57: optimizer.epsilon has no effect with optimizer.name sgd: sgd divides by nothing"},
        ConfigInertCase{
            "optimizer: {decay_all: true}\n",
            "c.yaml:2:24: optimizer.decay_all has no effect with optimizer.weight_decay 0: nothing is "
            "decayed"},
        ConfigInertCase{
            "scheduler: {warmup_steps: 3, min_lr: 1e-5}\n",
            "c.yaml:2:38: scheduler.min_lr has no effect with scheduler.name constant: the learning rate "
            "does not "
            "fall"},
        ConfigInertCase{
            "parallelism: {data_parallel_size: 1, gradient_bucket_mb: 5}\n",
            "c.yaml:2:58: parallelism.gradient_bucket_mb has no effect with parallelism.data_parallel_size "
            "1 and "
            "parallelism.sequence_parallel false: gradients are reduced over neither data nor sequence "
            "parallel "
            "ranks"},
        ConfigInertCase{
            "parallelism: {data_parallel_size: 1, timeout_seconds: 5, communicator: tcp}\n",
            "c.yaml:2:55: parallelism.timeout_seconds has no effect with parallelism.data_parallel_size 1 "
            "and "
            "parallelism.tensor_parallel_size 1: a rank alone waits for nobody\n"
            "c.yaml:2:72: parallelism.communicator has no effect with parallelism.data_parallel_size 1 and "
            "parallelism.tensor_parallel_size 1: a rank alone talks to nobody"},
        ConfigInertCase{
            "device: {backend: reference, threads: 2}\n",
            "c.yaml:2:39: device.threads has no effect with device.backend reference: its kernels "
            "have one thread"},
        ConfigInertCase{"device: {gelu_in_products: true}\n",
                        "c.yaml:2:28: device.gelu_in_products has no effect with device.backend cpu: only "
                        "products on CUDA devices end with it"},
        ConfigInertCase{
            "training: {loss_scale: 1}\n",
            "c.yaml:2:24: training.loss_scale has no effect with training.precision fp32: a factor of 1 "
            "changes nothing"},
        ConfigInertCase{"training: {fp8_weight_cache: false}\n",
                        "c.yaml:2:30: training.fp8_weight_cache has no effect with training.fp8 false: no "
                        "number is of FP8"},
        ConfigInertCase{
            "training: {precision: bf16, fp8: true, gradient_accumulation_steps: 1, fp8_weight_cache: "
            "false}\n",
            "c.yaml:2:90: training.fp8_weight_cache has no effect with training.gradient_accumulation_steps "
            "1: a step has one micro-batch, and nothing to keep for others"},
        ConfigInertCase{
            "optimizer: {lr: 0, name: sgd, momentum: 0.5}\n",
            "c.yaml:2:41: optimizer.momentum has no effect with optimizer.learning_rate 0: no parameter "
            "changes"},
        ConfigInertCase{
            "optimizer: {lr: 0, weight_decay: 0.1, beta1: 0.5, beta2: 0.5}\nscheduler: {warmup_steps: 3}\n",
            "c.yaml:2:34: optimizer.weight_decay has no effect with optimizer.learning_rate 0: no parameter "
            "changes\n"
            "c.yaml:2:46: optimizer.beta1 has no effect with optimizer.learning_rate 0: no parameter "
            "changes\n"
            "c.yaml:2:58: optimizer.beta2 has no effect with optimizer.learning_rate 0: no parameter "
            "changes\n"
            "c.yaml:3:27: scheduler.warmup_steps has no effect with optimizer.learning_rate 0: no parameter "
            "changes"},
        ConfigInertCase{"optimizer: {lr: 0.5}\nscheduler: {name: cosine, min_lr: 0.5}\n",
                        "c.yaml:3:19: scheduler.name has no effect with scheduler.min_lr 0.5: the learning "
                        "rate ends where "
                        "it begins"},
        ConfigInertCase{
            "debug: {dump_step: 2}\n",
            "c.yaml:2:20: debug.dump_step has no effect with debug.dump_gradients \"\": no gradients are "
            "written"}));

TEST(InertKeys, OfDataSayWhy) {
  EXPECT_EQ(refusal("data: {format: random, path: x}"),
            "c.yaml:1:30: data.path has no effect with data.format random: no file is read");
  EXPECT_EQ(refusal("data: {format: random, dtype: uint16}"),
            "c.yaml:1:31: data.dtype has no effect with data.format random: only token files are read as "
            "integers of "
            "a type");
  EXPECT_EQ(refusal("data: {path: x, low: 1, high: 5}"),
            "c.yaml:1:22: data.low has no effect with data.format text: ids come from files\n"
            "c.yaml:1:31: data.high has no effect with data.format text: ids come from files");
  EXPECT_EQ(refusal("data: {path: x, shuffle: false, seed: 5}"),
            "c.yaml:1:39: data.seed has no effect with data.shuffle false and data.format text: samples come "
            "in the "
            "order of the files");
  EXPECT_EQ(refusal("data: {path: x, seed: 5}"), "accepted");
  EXPECT_EQ(
      refusal("data: {path: x, format: jsonl, shuffle: false, seed: 5, mask_token: 3}\nmodel: {type: bert}"),
      "accepted");  // masks are drawn from it
}

TEST(InertKeys, AreOnlyThoseOfAnotherValue) {
  EXPECT_EQ(
      refusal(kLeast + "optimizer: {momentum: 0}\ndebug: {dump_step: 1}\nlogging: {steps: 1, progress: on}\n"
                       "parallelism: {data_parallel_size: 1, gradient_bucket_mb: 25, timeout_seconds: 120, "
                       "communicator: self}\n"),
      "accepted");
  for (const char* effective :
       {"training: {loss_scale: 0, loss_scale_window: 10, max_steps: 10}\n",
        "scheduler: {name: linear, warmup_steps: 9}\ntraining: {max_steps: 10}\n",
        "scheduler: {name: cosine}\ntraining: {max_steps: 1}\n", "training: {loss_scale: 2}\n",
        "optimizer: {lr: 0, name: sgd}\n", "training: {loss_scale: 0}\n",
        "parallelism: {timeout_seconds: 5, communicator: tcp, data_parallel_size: 2}\n",
        "parallelism: {timeout_seconds: 5, communicator: tcp, tp: 2}\n"})
    EXPECT_EQ(refusal(kLeast + effective), "accepted");
  EXPECT_EQ(refusal(kLeast + "training: {precision: fp16, loss_scale: 1}\ndevice: {backend: cuda}\n", {},
                    {.cuda = true}),
            "accepted");
  EXPECT_EQ(refusal("data: {path: x, high: 300, low: 0, shuffle: false, seed: 42}\nmodel: {vocab_size: 300}"),
            "accepted");
}

// What a task does not read, too, where it is what the other keys make of it.
TEST(InertKeys, OfAResolvedDumpAreAccepted) {
  const std::string masked = "task: masked_lm\ndata: {format: random, mask_token: 3}\n";
  const Config config = accepted(masked + "model: {type: bert, hidden_dropout_prob: 0.25}\n");
  EXPECT_EQ(config.model.values.real("classifier_dropout"), 0.25);
  EXPECT_EQ(flatten(accepted(dump_resolved(config))), flatten(config));
  EXPECT_EQ(accepted(masked + dump_model(config.model)).model.values.real("classifier_dropout"), 0.25);
  EXPECT_NE(refusal(masked + "model: {type: bert, classifier_dropout: 0.25}\n")
                .find("model.classifier_dropout has no effect with task masked_lm: the head has no dropout"),
            std::string::npos);
}

// A trial run of a few steps is no mistake: what only its length leaves without effect is remarked.
TEST(InertKeys, OfAShortRunAreRemarked) {
  using Unreached = std::map<std::string, std::string>;
  const auto unreached = [](const std::string& text) { return accepted(kLeast + text).unreached; };
  const std::string endless =
      "scheduler.warmup_ratio 0 and training.max_steps 10: no step comes after the one with the highest "
      "learning rate";
  EXPECT_EQ(
      unreached("scheduler: {name: linear, warmup_steps: 10, min_lr: 1e-5}\ntraining: {max_steps: 10}\n"),
      (Unreached{{"scheduler.name", "no effect with scheduler.warmup_steps 10 and " + endless},
                 {"scheduler.min_lr", "no effect with scheduler.warmup_steps 10 and " + endless}}));
  EXPECT_EQ(unreached("training: {loss_scale: 0, loss_scale_window: 11, max_steps: 10}\n"),
            (Unreached{{"training.loss_scale_window",
                        "no effect with training.max_steps 10: so many updates are never made"}}));
  EXPECT_EQ(
      unreached("checkpoint: {save_best_model: true}\nevaluation: {every_steps: 1, batches: 1}\ntraining: "
                "{max_steps: 0}\n")
          .size(),
      1u);
  EXPECT_EQ(unreached("scheduler: {name: linear, warmup_steps: 8}\ntraining: {max_steps: 10}\n"),
            Unreached{});
  EXPECT_EQ(unreached("scheduler: {name: linear, warmup_steps: 9}\ntraining: {max_steps: 10}\n").size(), 1u);
  EXPECT_EQ(unreached("scheduler: {name: cosine}\ntraining: {max_steps: 1}\n").size(), 1u);
}

// The number of replicas may only be known with the world.
TEST(InertKeys, AreFoundWhenTheWorldIsKnown) {
  const std::string text = kLeast + "parallelism: {gradient_bucket_mb: 5}\n";
  Config one = accepted(text), two = accepted(text),
         sequence =
             accepted(kLeast + "parallelism: {gradient_bucket_mb: 5, tp: 2, sequence_parallel: true}\n");
  resolve_world(two, 2);
  resolve_world(sequence, 2);
  try {
    resolve_world(one, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_NE(std::string(error.what()).find("c.yaml:2:35: parallelism.gradient_bucket_mb has no effect"),
              std::string::npos)
        << error.what();
  }
}

// What config.json says of the weights' origin is no wish of the user's.
TEST(InertKeys, InitializerRangeOfLoadedWeights) {
  const test::TemporaryFolder folder;
  Config::Model model;
  model.values.set("initializer_range", 0.5);
  write_hf_config(folder.file("config.json"), model, Task::kCausalLm);
  const std::string loaded = kLeast + "model: {pretrained: " + folder.path();
  const Config config = accepted(loaded + "}\n");
  EXPECT_EQ(config.model.values.real("initializer_range"), 0.5);
  EXPECT_EQ(flatten(read_config_text("dump", dump_resolved(config))), flatten(config));
  EXPECT_EQ(refusal(loaded + ", initializer_range: 0.5}\n"), "accepted");
  const std::string said = refusal(loaded + ", initializer_range: 0.02}\n");
  EXPECT_NE(said.find("model.initializer_range has no effect with model.pretrained"), std::string::npos)
      << said;
  EXPECT_NE(said.find("the weights are loaded, not drawn"), std::string::npos) << said;
}

}  // namespace
}  // namespace recollect::test::config_inert_test
