// `device.backend: cuda` from configuration to weights, on the fake CUDA: the same bits launched and replayed, in
// whatever order the device does what it may, however activations are kept; and faults that are planted are seen.
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/config/read.h"
#include "tests/engine/expect_error.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {
namespace {

using test::expect_same_bits;
using test::train;
using test::Trained;

// One graph for each kind of run: micro-batches that are the first, the last, neither or both; and the update.
TEST_F(FakeTraining, ReplaysGiveTheBitsOfLaunches) {
  const std::pair<Words, int64_t> layouts[] = {
      {{}, 2 * 2},
      {{"training.precision=bf16", "training.gradient_accumulation_steps=2"}, 2 * 3},
      {{"training.precision=fp16", "training.loss_scale=1024", "training.gradient_accumulation_steps=3"},
       2 * 4},
      {with(kHost, {"training.precision=bf16", "activation_checkpointing.storage_dtype=e4m3"}), 2 * 2},
  };
  for (const auto& [layout, replays] : layouts) {
    const Words words = with(layout, {"training.max_steps=3"});
    const Trained launched = train_in({}, with(words, kLaunched));
    expect_replays(0);
    expect_same_bits(launched, train_in({}, words), fmt::format("{}", fmt::join(words, " ")));
    expect_replays(replays);
    EXPECT_NE(launched.steps[0].loss, launched.steps[2].loss);
  }
}

// Fused attention draws its masks from seeds on the device, which are others in each step and the same when a layer is
// computed again.
TEST_F(FakeTraining, ReplaysOfFusedAttentionToo) {
  const Words bf16 = {"training.precision=bf16", "model.attn_pdrop=0.3"};
  const Trained launched = train_in({.fused_attention = true}, with(bf16, kLaunched));
  expect_same_bits(launched,
                   train_in({.order = RunOrder::kEarly, .fused_attention = true}, with(kHost, bf16)),
                   "replayed");
  const Words one = {"training.precision=bf16", "model.attn_pdrop=0", "training.max_steps=1"};
  const Trained fused = train_in({.fused_attention = true}, one), plain = train_in({}, one);
  EXPECT_NE(fused.steps[0].loss, launched.steps[0].loss) << "the mask is none";
  EXPECT_NEAR(fused.steps[0].loss, plain.steps[0].loss, 1e-2 * plain.steps[0].loss);
  EXPECT_LE(test::largest_difference(plain.gradients, fused.gradients), 0.1);
}

// Codes too, which an activation makes beside itself where it is followed by them (join_ops.h).
TEST_F(FakeTraining, Float8ComputedAgainHasTheSameBits) {
  const Words fp8 = {"training.fp8=true",   "training.precision=bf16", "model.n_inner=32",
                     "model.n_layer=2",     "model.n_positions=16",    "data.sequence_length=16",
                     "training.max_steps=1"};
  const Trained none = train_in({}, fp8);
  expect_same_bits(none, train_in({.order = RunOrder::kLate}, with(kHost, fp8)), "computed again");
}

// The step that makes the codes of frozen weights is one of its own: the others are replayed.
TEST_F(FakeTraining, Float8OfFrozenWeightsIsMadeBeforeStepsAreReplayed) {
  const Words fp8 = {
      "training.fp8=true",    "training.precision=bf16", "model.n_inner=32",     "model.n_layer=2",
      "model.n_positions=16", "data.sequence_length=16", "training.max_steps=4", "lora.rank=2"};
  const Trained launched = train_in({}, with(fp8, kLaunched));
  expect_same_bits(launched, train_in({.order = RunOrder::kLate}, fp8), "replayed");
  expect_replays(2 + 3);
  expect_same_bits(launched, train_in({}, with(fp8, {"training.fp8_weight_cache=false"})), "at every use");
  expect_replays(2 * 3);
}

// Of tokens too, of which a device multiplies 16 at a time.
TEST_F(FakeTraining, Float8RefusesOtherSizesThanDevicesMultiply) {
  test::expect_error(ExitCode::kConfiguration, {"multiples of 16"}, [] {
    train_in({}, {"training.fp8=true", "training.precision=bf16", "model.n_inner=32", "model.n_positions=24",
                  "data.sequence_length=24"});
  });
}

// The limit says so, and not what is checkpointed: in every mode it is the same way, in the bytes that were predicted.
TEST_F(FakeTraining, FusedAttentionAddsUpInOrderWhereTheLimitIsSmall) {
  const Settings fused{.fused_attention = true};
  const Words bf16 = {"training.precision=bf16", "model.attn_pdrop=0.3"},
              limited = with(bf16, {"device.memory_limit=1536KiB"});
  const Trained roomy = train_in(fused, bf16), small = train_in(fused, limited);
  EXPECT_LT(small.measured[0].arena_bytes(), roomy.measured[0].arena_bytes());
  const Trained again = train_in(fused, with(limited, kHost));
  EXPECT_LT(again.measured[0].arena_bytes(), train_in(fused, with(bf16, kHost)).measured[0].arena_bytes());
  expect_same_bits(small, again, "computed again");
}

// Of the limit, on the GPUs that have a kernel for it.
TEST_F(FakeTraining, AttentionAddsUpInOrderWhereScoresTakeMoreThanASixteenth) {
  const auto attention = [](uint64_t limit, const char* gpu) {
    restart({.fused_attention = true});
    Config config = read_config_text("test.yaml", kTinyOnCuda,
                                     {"training.precision=bf16", fmt::format("device.model={}", gpu),
                                      fmt::format("device.memory_limit={}", limit)});
    resolve_world(config, 1);
    const std::unique_ptr<Communicator> alone = make_self_communicator();
    return Session(config, *alone).training_program().checkpointed.attention;
  };
  const uint64_t scores = attention(1536 << 10, "h200").instead_of_bytes;
  ASSERT_GT(scores, 0u);
  EXPECT_TRUE(attention(16 * scores - 1, "h200").in_order);
  EXPECT_TRUE(attention(16 * scores - 1, "h100").in_order);
  EXPECT_FALSE(attention(16 * scores - 1, "a100").in_order);
  EXPECT_FALSE(attention(16 * scores, "h200").in_order);
}

TEST_F(FakeTraining, IsNearTheCpu) {
  const Words no_dropout = {"model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"};
  const Trained gpu = train_in({}, no_dropout);
  const Trained cpu = train(kTinyOnCuda, with(no_dropout, {"device.backend=cpu"}));
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(gpu.steps[i].loss, cpu.steps[i].loss, 1e-4 * cpu.steps[i].loss);
  EXPECT_LE(test::largest_difference(cpu.gradients, gpu.gradients), 1e-4);
  // Where a layer is computed again, a sum and its norm may be two ops which were one.
  expect_same_bits(gpu, train_in({}, with(no_dropout, kHost)), "computed again");
}

TEST_F(FakeTraining, RoundsProductsToTf32WhereThatIsAskedFor) {
  const double exact = train_in({}, {}).steps[0].loss,
               rounded = train_in({}, {"device.tf32=true"}).steps[0].loss;
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 1e-2 * exact);
  const auto predicted = [](const Words& words) {
    return device_of(read_config_text("test.yaml", kTinyOnCuda, with({"device.model=h200"}, words))).gemm_f32;
  };
  EXPECT_EQ(predicted({}), device_preset("h200").gemm_f32);
  EXPECT_EQ(predicted({"device.tf32=true"}), device_preset("h200").gemm_bf16 / 2);
}

TEST_F(FakeTraining, NoOrderOfTheDeviceChangesABit) {
  const test::TemporaryFolder folder;
  const Words disk = with(kHost, {"activation_checkpointing.disk_checkpointing.path=" + folder.file("")});
  const Trained none = train_in({}, kLaunched);
  for (const auto& [order, words] : {std::pair{RunOrder::kLate, kHost}, std::pair{RunOrder::kRandom, kHost},
                                     std::pair{RunOrder::kLate, disk}, std::pair{RunOrder::kEarly, disk}})
    expect_same_bits(none, train_in({.order = order, .seed = 7}, words),
                     fmt::format("{} {}", fmt::join(words, " "), static_cast<int>(order)));
}

// Optimizer states travel on the streams of copies, in whatever order these are free to.
TEST_F(FakeTraining, StatesKeptInTheHostsMemoryHaveTheSameBits) {
  for (const Words& run :
       {Words{}, Words{"training.precision=bf16", "training.gradient_accumulation_steps=2"}}) {
    const Trained none = train_in({}, with(run, kLaunched));
    for (const RunOrder order : {RunOrder::kEarly, RunOrder::kLate, RunOrder::kRandom})
      for (const Words& words : {Words{}, kLaunched, kHost}) {
        const Trained away =
            train_in({.order = order, .seed = 5}, with(with(run, words), {"optimizer.offload=host"}));
        expect_same_bits(none, away, fmt::format("{} {}", fmt::join(words, " "), static_cast<int>(order)));
        EXPECT_GT(away.measured[0].host_bytes, 0u);
      }
  }
}

// The host's processor updates them. It may round otherwise than the device, but in every order to the same bits.
TEST_F(FakeTraining, StatesUpdatedByTheHostAreNearTheDevices) {
  const Words on_host = {"optimizer.offload=host", "optimizer.offload_update=host"},
              one = {"training.max_steps=1"};
  const std::pair<Words, double> runs[] = {
      {{}, 1e-5},
      {{"training.precision=bf16", "training.gradient_accumulation_steps=2"}, 1e-2},
      {{"training.loss_scale=0", "training.initial_loss_scale=1e39"}, 0}};  // the first update is left out
  for (const auto& [run, tolerance] : runs) {
    std::string said;
    const auto remember = [&](int) {
      return ProgramParts{.edit_program =
                              [&](TrainingProgram& training) {
                                for (const Remark& remark : training.remarks)
                                  if (remark.key == "optimizer.offload") said = remark.sentence;
                              },
                          .probe = nullptr};
    };
    const Trained device = train_in({}, with(with(run, one), {"optimizer.offload=host"})),
                  near = train_in({}, with(with(run, one), on_host), remember);
    EXPECT_NE(said.find("MiB of gradients there and fetches"), std::string::npos) << said;
    EXPECT_NE(said.find("by the device model the host's processor updates them"), std::string::npos) << said;
    if (tolerance == 0)
      EXPECT_EQ(device.parameters, near.parameters);
    else
      EXPECT_LE(test::largest_difference(device.parameters, near.parameters), tolerance);
    const Trained launched = train_in({}, with(with(run, kLaunched), on_host));
    expect_same_bits(launched, train_in({.order = RunOrder::kLate}, with(with(run, kHost), on_host)), "late");
    expect_same_bits(launched, train_in({.order = RunOrder::kRandom, .seed = 5}, with(run, on_host)),
                     "random");
  }
}

// Each rank's host updates its part, and what other ranks gather of it is what came back.
TEST_F(FakeTraining, StatesUpdatedByTheHostCanBeDivided) {
  const Words two = {"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
                     "optimizer.max_grad_norm=0",        "training.precision=bf16",
                     "optimizer.offload=host",           "optimizer.offload_update=host"};
  const Trained whole = train_in({}, two);
  for (const char* stage :
       {"1", "3"}) {  // whose gradient norm adds up in another order, and changes nothing here
    const Words divided = with(two, {std::string("parallelism.zero_stage=") + stage});
    EXPECT_EQ(whole.parameters, train_in({.order = RunOrder::kLate}, divided).parameters)
        << "stage " << stage;
  }
}

// It is another program for the device; training does not notice.
TEST_F(FakeTraining, AnEvaluationIsReplayedToo) {
  const Words evaluate = {"evaluation.every_steps=1", "evaluation.batches=2"};
  const Trained without = train_in({}, kHost),
                launched = train_in({}, with(with(kHost, evaluate), kLaunched)),
                replayed = train_in({}, with(kHost, evaluate));
  expect_replays(2 + 2);
  expect_same_bits(without, launched, "launched");
  expect_same_bits(without, replayed, "replayed");
  ASSERT_EQ(launched.evaluations.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(launched.evaluations[i].loss, replayed.evaluations[i].loss);
  EXPECT_NE(launched.evaluations[0].loss, launched.evaluations[1].loss);
}

// Threads that share a device meet in every collective, so nothing of theirs is captured. All compute as the first one chose.
TEST_F(FakeTraining, RanksThatShareADevice) {
  const Words two = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
  const Trained none = train_in({}, two);
  expect_replays(0);
  EXPECT_EQ(world().learned, 1);
  for (const RunOrder order : {RunOrder::kLate, RunOrder::kRandom})
    expect_same_bits(none,
                     train_in({.order = order}, with(with(two, kHost), {"activation_checkpointing."
                                                                        "partition_activations=true"})),
                     fmt::format("order {}", static_cast<int>(order)));
  const Words four = {"parallelism.tensor_parallel_size=2", "parallelism.data_parallel_size=2",
                      "parallelism.ranks_per_process=4"};
  const Trained launched = train_in({}, four);
  expect_same_bits(launched, train_in({.order = RunOrder::kEarly}, with(four, kHost)), "four ranks");
}

TEST_F(FakeTraining, TensorRanksAgreeOnTheOrderOfAttention) {
  const Words two = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
  const auto in_order = [](int rank) {
    const auto edit = [rank](TrainingProgram& training) {
      training.checkpointed.attention.in_order = rank == 1;
    };
    return ProgramParts{.edit_program = edit, .probe = nullptr};
  };
  test::expect_error(ExitCode::kRanksDisagree, {"keys_in_order"}, [&] { train_in({}, two, in_order); });
}

TEST_F(FakeTraining, TellsWhatLibrariesWarnOf) {
  testing::internal::CaptureStderr();
  train_in({.warning = "choices are not kept"}, {"training.max_steps=1"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "recollect: choices are not kept\n");
}

// Fetches that come as late as they may are waited for, and those that come early are not.
TEST_F(FakeTraining, ExposedWaitsAreOnTheDevicesClock) {
  const auto exposed = [](RunOrder order, const Words& words) {
    restart({.order = order});
    Config config = read_config_text("test.yaml", kTinyOnCuda, words);
    resolve_world(config, 1);
    const std::unique_ptr<Communicator> alone = make_self_communicator();
    Session session(config, *alone);
    for (int step = 0; step < 2; ++step) session.step();
    return session.executor().waits().exposed(StreamId::kHostToDevice);
  };
  EXPECT_GT(exposed(RunOrder::kLate, kHost), 0);
  EXPECT_EQ(exposed(RunOrder::kEarly, kHost), 0);
}

TEST_F(FakeTraining, WhatADeviceHasNotIsRefused) {
  try {
    train_in({.memory = 64 << 10}, {});
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDeviceMemory) << error.what();
  }
  EXPECT_EQ(world().what_is_left(), "");
  try {
    train_in({.pinned = 64}, with(kHost, {"device.pinned=required"}));
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kHostMemory) << error.what();
  }
  EXPECT_EQ(world().what_is_left(), "");
  try {
    train_in({.devices = 0}, {});
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration) << error.what();
  }
}

TEST_F(FakeTraining, WhatCannotBeCapturedIsLaunched) {
  Impatient probe;
  testing::internal::CaptureStderr();
  const Trained launched =
      train_in({}, {}, [&](int) { return ProgramParts{.edit_program = {}, .probe = &probe}; });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the step cannot be captured as a CUDA graph"), std::string::npos) << said;
  expect_replays(0);
  expect_same_bits(train_in({}, kLaunched), launched, "launched");
}

#if !defined(__SANITIZE_THREAD__)  // it ends the program at the first of them

// All waits of the ops of one stream for those of another one.
void take_waits_away(TrainingProgram& training, StreamId waiting, StreamId awaited) {
  const Graph& graph = training.program.graph;
  for (const OpId id : graph.op_ids())
    if (graph.op(id).stream == waiting)
      std::erase_if(training.program.schedule.waits[id],
                    [&](OpId before) { return graph.op(before).stream == awaited; });
}

// Losses and gradient norms; the memory is not looked at.
std::vector<double> numbers_in(const Settings& settings, const Words& words,
                               const std::function<void(TrainingProgram&)>& edit = {}) {
  restart(settings);
  Config config = read_config_text("test.yaml", kTinyOnCuda, words);
  resolve_world(config, 1);
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  Session session(config, *alone, {.edit_program = edit, .probe = nullptr});
  std::vector<double> numbers;
  for (int64_t step = 0; step < config.training.max_steps; ++step) {
    const StepResult result = session.step();
    numbers.insert(numbers.end(), {result.loss, result.grad_norm});
  }
  return numbers;
}

std::set<std::pair<StreamId, StreamId>> pairs_that_wait(const Words& words) {
  std::set<std::pair<StreamId, StreamId>> pairs;
  numbers_in({}, with(words, {"training.max_steps=1"}), [&](TrainingProgram& training) {
    const Graph& graph = training.program.graph;
    for (const OpId id : graph.op_ids())
      for (const OpId before : training.program.schedule.waits[id])
        pairs.insert({graph.op(id).stream, graph.op(before).stream});
  });
  return pairs;
}

// The first step is launched, the second one replayed.
TEST_F(FakeTraining, WaitsThatAreMissingGiveOtherBits) {
  const auto pairs = pairs_that_wait(kHost);
  EXPECT_EQ(pairs.size(), 5u);
  const std::vector<double> right = numbers_in({}, kHost);
  const auto is_seen = [&](RunOrder order, StreamId waiting, StreamId awaited) {
    const auto edit = [&](TrainingProgram& training) { take_waits_away(training, waiting, awaited); };
    try {
      return numbers_in({.order = order}, kHost, edit) != right;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNumerics) << error.what();
      return true;
    }
  };
  for (const auto& [waiting, awaited] : pairs) {
    // What is fetched comes to where compute was, which waited for what was stored.
    if (waiting == StreamId::kHostToDevice && awaited == StreamId::kDeviceToHost) continue;
    EXPECT_TRUE(is_seen(RunOrder::kLate, waiting, awaited) || is_seen(RunOrder::kEarly, waiting, awaited))
        << name_of(waiting) << " without its waits for " << name_of(awaited);
  }
}

#endif

}  // namespace
}  // namespace recollect::fake_cuda
