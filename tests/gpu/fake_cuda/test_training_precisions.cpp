// What a step may compute and keep in few bits, on the fake CUDA, for several steps: replayed as launched, and the same
// bits with activations that are computed again.
#include "tests/engine/expect_error.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {
namespace {

using test::expect_same_bits;
using test::Trained;

class FakePrecisions : public FakeTraining {
 protected:
  // Launched, replayed, and replayed with everything computed again. Replays are counted, of either: of the latter some runs
  // are launched in between, to show what they wait for.
  static Trained train_alike(const std::string& yaml, const Words& words, int64_t replays,
                             int64_t launched_between = 0) {
    const Trained launched = train_in({.fused_attention = true}, yaml, with(words, kLaunched));
    expect_same_bits(launched, train_in({.order = RunOrder::kEarly, .fused_attention = true}, yaml, words),
                     "replayed");
    expect_replays(replays);
    expect_same_bits(launched,
                     train_in({.order = RunOrder::kLate, .fused_attention = true}, yaml, with(words, kHost)),
                     "computed again");
    expect_replays(replays - launched_between);
    return launched;
  }
};

// Codes of weights are made by the first micro-batch of a step for all of them. Gelu, SwiGLU, its gradient and norms make
// codes beside what they compute.
TEST_F(FakePrecisions, Float8) {
  const Words sizes = {"training.precision=bf16", "training.gradient_accumulation_steps=2",
                       "training.max_steps=3", "data.sequence_length=16"};
  const Words gpt2 = {"model.n_layer=2", "model.n_positions=16", "model.n_inner=32"},
              llama = {"model.num_hidden_layers=2", "model.max_position_embeddings=16",
                       "model.intermediate_size=32", "training.micro_batch_size=1"};
  for (const auto& [yaml, model] : {std::pair{kTinyOnCuda, gpt2}, std::pair{kTinyLlamaOnCuda, llama}}) {
    const Words words = with(sizes, model), fp8 = with(words, {"training.fp8=true"});
    const Trained coded = train_alike(yaml, fp8, 2 * 3),
                  bf16 = train_in({.fused_attention = true}, yaml, words);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NE(coded.steps[i].loss, bf16.steps[i].loss);
      EXPECT_NEAR(coded.steps[i].loss, bf16.steps[i].loss, 0.05 * bf16.steps[i].loss);
    }
  }
}

// The scale doubles after each step without overflow, so that there is one again behind steps that were replayed.
TEST_F(FakePrecisions, OverflowsInFloat16) {
  const Words words = {"training.precision=fp16",      "training.gradient_accumulation_steps=2",
                       "training.max_steps=5",         "training.initial_loss_scale=32768",
                       "training.loss_scale_window=1", "optimizer.max_grad_norm=0"};
  const Trained trained = train_alike(kTinyLlamaOnCuda, words, 4 * 3, 2);
  const auto skipped = [&](std::size_t step) { return trained.steps[step].skipped; };
  EXPECT_TRUE(!skipped(0) && !skipped(1)) << "the second step is replayed";
  EXPECT_TRUE(skipped(3) && !skipped(4)) << "the scale goes down and up";
}

// Each length is a program, and a graph for each place of its micro-batches in a step. The second program is made within the
// first step, beside gradients that its trials of products must leave alone. States of 8 bits are those of matrices of 4096
// numbers; parameters that are their own master copies are rounded by chance.
TEST_F(FakePrecisions, SmallStatesOfChangingLengths) {
  const test::TemporaryFolder folder;
  const char* const lines = R"({"input_ids": [4, 99, 1, 30]}
{"input_ids": [12, 3, 8, 100, 2, 16, 9]}
{"input_ids": [1, 36, 70, 7, 20, 127, 126]}
{"input_ids": [25, 24, 23]}
)";
  const Words words = {"data.format=jsonl",
                       "data.path=" + folder.write("lines.jsonl", lines),
                       "data.shuffle=false",
                       "data.sequence_length=8",
                       "data.padding=longest",
                       "data.pad_to_multiple_of=4",
                       "model.vocab_size=128",
                       "model.n_embd=32",
                       "model.n_inner=128",
                       "model.n_layer=2",
                       "training.precision=bf16",
                       "training.master_dtype=bf16",
                       "training.gradient_accumulation_steps=2",
                       "training.max_steps=4",
                       "optimizer.name=adamw8bit"};
  train_alike(kTinyOnCuda, words, 3 * 2);
}

// Products that end with GELU make it of sums that nothing has rounded: every mode has the same bits, and they are near those
// of GELU as an op of its own.
TEST_F(FakePrecisions, GeluInProducts) {
  const auto mode = [](const char* name) {
    return Words{std::string("activation_checkpointing.mode=") + name};
  };
  const Words steps = {"training.gradient_accumulation_steps=2", "training.max_steps=2",
                       "evaluation.every_steps=1", "evaluation.batches=1"};
  constexpr double kTolerance = 1e-2;
  const Words two_ops = with(steps, {"training.precision=bf16"}),
              words = with(two_ops, {"device.gelu_in_products=true"});
  const Trained launched = train_alike(kTinyOnCuda, words, 3 + 1);
  const Trained apart = train_in({.fused_attention = true}, two_ops);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(launched.steps[i].loss, apart.steps[i].loss, kTolerance * apart.steps[i].loss);
  EXPECT_TRUE(launched.gradients != apart.gradients) << "it is another op";
  EXPECT_LE(test::largest_difference(launched.gradients, apart.gradients), 10 * kTolerance);
  for (const Words& plan : {mode("full"), mode("selective"),
                            with(mode("selective"), {"activation_checkpointing.recompute=[mlp]"})})
    expect_same_bits(launched, train_in({.fused_attention = true}, with(words, plan)), plan.back());
}

TEST_F(FakePrecisions, GeluInProductsIsRefusedWhereItWouldDoNothing) {
  const auto refuses = [](const Words& words, const std::string& why) {
    test::expect_error(ExitCode::kConfiguration, {"device.gelu_in_products has no effect", why},
                       [&] { train_in({}, with(words, {"device.gelu_in_products=true"})); });
  };
  refuses({"training.precision=bf16", "training.fp8=true"}, "FP8 matrix products");
  refuses({"training.precision=fp32"}, "16-bit numbers");
  refuses({"training.precision=bf16", "model.activation_function=gelu"}, "tanh form");
  refuses({"training.precision=bf16", "lora.rank=2", "lora.targets=all-linear"}, "adapters stand between");
}

// Beside a module with adapters what is multiplied has two readers, of which one brings the gradient of GELU's own output.
TEST_F(FakePrecisions, GeluInProductsBesideAdapters) {
  const Words adapters = {"lora.rank=2", "lora.targets=[mlp.c_proj]", "training.precision=bf16",
                          "training.max_steps=2"},
              words = with(adapters, {"device.gelu_in_products=true"});
  Trained launched = train_alike(kTinyOnCuda, words, 2),
          apart = train_in({.fused_attention = true}, adapters);
  for (Trained* trained : {&launched, &apart})  // A's gradients are zero while B is
    std::erase_if(trained->gradients,
                  [](const auto& g) { return g.first.find("lora_A") != std::string::npos; });
  EXPECT_LE(test::largest_difference(launched.gradients, apart.gradients), 0.1);
}

}  // namespace
}  // namespace recollect::fake_cuda
