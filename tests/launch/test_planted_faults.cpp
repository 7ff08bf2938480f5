// Tests of the tests: with a fault planted into the program, each guard must speak up.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "checkpointing/device_file.h"
#include "checkpointing/plan_file.h"
#include "checkpointing/residency_ops.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "engine/core/hash.h"
#include "engine/ops/cpu_level.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/ranks/world.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::planted_faults_test {
namespace {

const char* const kPlantedFaultsYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 4, n_head: 2, n_inner: 36,
        initializer_range: 0.2, resid_pdrop: 0.3, embd_pdrop: 0.3, attn_pdrop: 0.3}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 2, seed: 3}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 7}
)";

using Words = std::vector<std::string>;

Words checkpointing(const Words& keys, bool verify) {
  Words words;
  for (const std::string& key : keys) words.push_back("activation_checkpointing." + key);
  if (verify) words.push_back("activation_checkpointing.verify=true");
  return words;
}

using Fault = std::function<void(TrainingProgram&)>;

Trained train_with(const Fault& fault, const Words& words, ExecutorProbe* probe = nullptr) {
  return train(kPlantedFaultsYaml, words,
               [&](int) { return ProgramParts{.edit_program = fault, .probe = probe}; });
}

// The Error that ends the run; none is a failure of the test.
Error error_of(const Fault& fault, const Words& words, ExecutorProbe* probe = nullptr) {
  try {
    train_with(fault, words, probe);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nobody noticed the fault";
  return Error(ExitCode::kOk, "");
}

bool has(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

OpId find_op(const Graph& graph, const std::string& name) {
  for (OpId id : graph.op_ids())
    if (graph.op(id).name == name) return id;
  ADD_FAILURE() << "there is no op " << name;
  return 0;
}

// Compiles the program of one rank again after its graph was changed.
void recompile(TrainingProgram& training, Communicator& self) {
  KernelTable table;
  cpu_level().register_kernels(table, nullptr);
  const CommunicatorLookup lookup = [&self](std::string_view, StreamId) -> Communicator& { return self; };
  register_comm_kernels(table, lookup);
  register_checkpointing_kernels(table, lookup);
  register_verify_kernels(table, self.rank());
  training.program = compile(std::move(training.program.graph), table);
}

TEST(PlantedFault, WrongRandomKeyOfARecomputedOp) {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  for (const char* name : {"recompute/layer1/attn/core", "recompute/layer2/attn/residual"}) {
    const Fault fault = [&](TrainingProgram& training) {
      Op& op = training.program.graph.op(find_op(training.program.graph, name));
      op.attributes.set("site", op.attributes.integer("site") + 64);
      recompile(training, *self);
    };
    const Words silent = checkpointing({"mode=full"}, false);
    const Trained right = train(kPlantedFaultsYaml, silent), wrong = train_with(fault, silent);
    EXPECT_EQ(right.steps[0].loss, wrong.steps[0].loss) << "forward is not touched";
    EXPECT_NE(right.gradients, wrong.gradients) << name;
    EXPECT_NE(right.parameters, wrong.parameters) << name;

    const Error error = error_of(fault, checkpointing({"mode=full"}, true));
    EXPECT_EQ(error.code(), ExitCode::kIntegrity) << error.what();
    const std::string original = std::string(name).substr(std::string("recompute/").size());
    EXPECT_TRUE(has(error, original + " that forward made in layer " + original.substr(5, 1)) &&
                has(error, "on rank 0, step 1"))
        << error.what();
  }
}

// Holds the ops of one side stream back until the op that should have waited for the first of them is over.
class Latecomer final : public ExecutorProbe {
 public:
  void hold(OpId late, OpId consumer) {
    late_ = late;
    consumer_ = consumer;
  }

  void before_op(const Executor&, OpId id) override {
    if (id != late_) return;
    std::unique_lock lock(mutex_);
    const bool overtaken =
        over_.wait_for(lock, std::chrono::seconds(20), [&] { return consumed_ > arrived_; });
    EXPECT_TRUE(overtaken) << "somebody still waits for the op";
    ++arrived_;
  }

  void after_op(const Executor&, OpId id) override {
    if (id != consumer_) return;
    std::lock_guard lock(mutex_);
    ++consumed_;
    over_.notify_all();
  }

 private:
  OpId late_ = kNone, consumer_ = kNone;
  std::mutex mutex_;
  std::condition_variable over_;
  int consumed_ = 0, arrived_ = 0;
};

// Takes away the compute stream's wait for the fetch of a layer's input.
Fault missing_wait(Latecomer& probe) {
  return [&probe](TrainingProgram& training) {
    const Graph& graph = training.program.graph;
    const OpId fetch = find_op(graph, "fetched/layer1/layer0/mlp/residual");
    for (OpId id = fetch; id < static_cast<OpId>(graph.ops().size()); ++id) {
      std::vector<OpId>& waits = training.program.schedule.waits[id];
      if (graph.op(id).stream != StreamId::kCompute || std::erase(waits, fetch) == 0) continue;
      probe.hold(fetch, id);
      return;
    }
    ADD_FAILURE() << "nobody waits for the fetch";
  };
}

TEST(PlantedFault, MissingWaitForAFetchedValue) {
  const auto mode = {std::string("mode=full"), std::string("cpu_checkpointing=true")};
  const Trained right = train(kPlantedFaultsYaml, checkpointing(mode, false));
  Latecomer unseen;
  const Trained wrong = train_with(missing_wait(unseen), checkpointing(mode, false), &unseen);
  EXPECT_EQ(right.steps[0].loss, wrong.steps[0].loss) << "forward is not touched";
  EXPECT_NE(right.gradients, wrong.gradients);

  Latecomer seen;
  const Error error = error_of(missing_wait(seen), checkpointing(mode, true), &seen);
  EXPECT_EQ(error.code(), ExitCode::kIntegrity) << error.what();
  EXPECT_TRUE(has(error, "fetched/layer1/layer0/mlp/residual")) << error.what();
}

// Lays a value of forward where the first layer's input still waits for its backward.
void reuse_early(TrainingProgram& training) {
  const Graph& graph = training.program.graph;
  recollect::Layout& layout = training.program.layout;
  const ValueId waiting = graph.find("embedding/dropout"), intruder = graph.find("layer2/attn/residual");
  ASSERT_TRUE(waiting != kNone && intruder != kNone);
  ASSERT_NE(layout.storage[waiting], layout.storage[intruder]);
  ASSERT_EQ(graph.value(waiting).bytes(), graph.value(intruder).bytes());
  for (std::size_t v = 0; v < layout.storage.size(); ++v)
    if (layout.storage[v] == layout.storage[intruder])
      layout.value_offsets[v] = layout.value_offsets[waiting];
}

TEST(PlantedFault, SlotReusedTooEarly) {
  const Error measured = error_of(reuse_early, checkpointing({"mode=full"}, false));
  EXPECT_EQ(measured.code(), ExitCode::kInternal) << measured.what();
  EXPECT_TRUE(has(measured, "two live values overlap in memory")) << measured.what();
  const Error verified = error_of(reuse_early, checkpointing({"mode=full"}, true));
  EXPECT_EQ(verified.code(), ExitCode::kIntegrity) << verified.what();
  EXPECT_TRUE(has(verified, "recompute/layer0/")) << verified.what();
}

// A memory error: one bit of what waits in host memory turns over.
class BitFlip final : public ExecutorProbe {
 public:
  void after_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    if (op.name == "host/layer1/mlp/residual")
      *static_cast<unsigned char*>(executor.tensor(op.outputs[0]).data) ^= 1;
  }
};

TEST(PlantedFault, OneBitFlippedOnOneRankEndsAllRanks) {
  BitFlip flip;
  Words words = checkpointing({"mode=full", "partition_activations=true", "cpu_checkpointing=true"}, true);
  words.insert(words.end(), {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"});
  const auto begin = std::chrono::steady_clock::now();
  try {
    train(kPlantedFaultsYaml, words,
          [&](int rank) { return ProgramParts{.probe = rank == 1 ? &flip : nullptr}; });
    ADD_FAILURE() << "nobody noticed the fault";
  } catch (const Error& error) {
    // What was gathered is the same on both ranks: either may be the first to say so.
    EXPECT_EQ(error.code(), ExitCode::kIntegrity) << error.what();
    EXPECT_TRUE(
        has(error, "fetched/layer2/layer1/mlp/residual is not the layer1/mlp/residual that forward made"))
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
      << "the others waited in vain";
}

// What is predicted and what was handed out are compared to the byte, wherever it is counted.
TEST(PlantedFault, ALedgerThatIsOneByteOff) {
  const std::vector<uint64_t MemoryLedger::*> kinds = {
      &MemoryLedger::persistent_bytes, &MemoryLedger::transient_bytes, &MemoryLedger::host_bytes};
  const auto differs = [](const Fault& fault) {
    const Trained run = train_with(fault, checkpointing({"mode=full", "cpu_checkpointing=true"}, false));
    return run.predicted.at(0) != run.measured.at(0);
  };
  EXPECT_FALSE(differs([](TrainingProgram&) {}));
  for (const auto kind : kinds)
    EXPECT_TRUE(differs([&](TrainingProgram& training) { ++(training.program.layout.ledger.*kind); }));
  for (int phase = 0; phase < kPhaseCount; ++phase)
    EXPECT_TRUE(differs([&](TrainingProgram& training) {
      ++training.program.layout.ledger.at_peak[phase][static_cast<int>(Category::kActivation)];
    })) << name_of(static_cast<Phase>(phase));
}

// Each rank reads its own device model, and plans by it: one that has another file has another plan.
TEST(PlantedFault, ARankThatPlansByAnotherDevice) {
  const TemporaryFolder folder;
  DeviceModel device = device_preset("cpu");
  const std::string right = folder.write("right.yaml", to_yaml(device));
  device.gemm_f32 /= 1e4;  // then products are what is saved first
  const std::string wrong = folder.write("wrong.yaml", to_yaml(device));
  const auto planned_by = [&](const std::string& model, int rank, const Words& keys) {
    Words words = checkpointing(keys, false);
    words.insert(words.end(), {"model.n_layer=2", "device.model=" + model,
                               "parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"});
    Config config = read_config_text("test.yaml", kPlantedFaultsYaml, words);
    resolve_planned_world(config);
    const PlannedRank planned(config, 0, rank);
    const TrainingProgram training = planned.require_plan(config);
    return std::pair(training.checkpointed, training.program.predicted().arena_bytes());
  };
  const uint64_t half =
      (planned_by(right, 0, {"mode=full"}).second + planned_by(right, 0, {"mode=none"}).second) / 2;
  const Words budget{"mode=auto", "memory_budget=" + std::to_string(half)};
  ASSERT_FALSE(planned_by(right, 0, budget).first.plan == planned_by(wrong, 0, budget).first.plan)
      << "the fault is none";
  EXPECT_TRUE(planned_by(right, 0, budget).first.plan == planned_by(right, 1, budget).first.plan);
  std::unique_ptr<MpiEnvironment> mpi;
  const Config two = read_config_text("test.yaml", kPlantedFaultsYaml, {"parallelism.ranks_per_process=2"});
  try {
    run_ranks(two, mpi, [&](Communicator& world) {
      const Checkpointed mine = planned_by(world.rank() == 0 ? right : wrong, world.rank(), budget).first;
      check_plans_agree(mine.plan, mine.moves, world);
    });
    ADD_FAILURE() << "nobody noticed the fault";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
    EXPECT_TRUE(has(error, "the ranks have different checkpointing plans\nvalues.layer")) << error.what();
    EXPECT_TRUE(has(error, "recompute on rank ")) << error.what();
  }
}

// The plan of a length that comes later is compared too, before a program goes by it.
TEST(PlantedFault, ARankThatHasAnotherPlanForALaterLength) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 16; ++i)
    lines += i % 4 < 2 ? "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}\n" : "{\"input_ids\": [3, 2, 1]}\n";
  Words words = checkpointing({"mode=full"}, false);
  words.insert(words.end(), {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                             "data.format=jsonl", "data.path=" + folder.write("lines.jsonl", lines),
                             "data.sequence_length=8", "data.padding=longest", "data.pad_to_multiple_of=4",
                             "data.shuffle=false", "training.max_steps=4"});
  for (const char* compile : {"ahead", "lazy"}) {
    words.push_back(std::string("training.compile=") + compile);
    EXPECT_EQ(train(kPlantedFaultsYaml, words).steps.size(), 4u) << "without the fault";
    try {
      train(kPlantedFaultsYaml, words, [](int rank) {
        const auto programs = std::make_shared<int>(0);
        return ProgramParts{.edit_program = [rank, programs](TrainingProgram& training) {
          if (rank != 1 || ++*programs != 2) return;
          Decision& first = training.checkpointed.plan.values.begin()->second;
          first.save = !first.save;
        }};
      });
      ADD_FAILURE() << "nobody noticed the fault, compiled " << compile;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRanksDisagree) << error.what();
      EXPECT_TRUE(has(error, "the ranks have different checkpointing plans")) << error.what();
    }
    words.pop_back();
  }
}

// And without a fault: silence, the same bits, in the memory predicted.
TEST(Verify, ChangesNothing) {
  const Trained none = train(kPlantedFaultsYaml, {});
  for (const std::string_view mode : kModes)
    for (const char* host : {"true", "false"}) {
      if (mode == "none" && host == std::string("false")) continue;  // nothing comes again
      Words keys = mode_keys(mode);
      keys.push_back(std::string("cpu_checkpointing=") + host);
      expect_same_bits(none, train(kPlantedFaultsYaml, checkpointing(keys, true)), std::string(mode));
    }
}

TEST(Verify, IsAnErrorWhereNothingComesAgain) {
  const Error error = error_of([](TrainingProgram&) {}, checkpointing({}, true));
  EXPECT_EQ(error.code(), ExitCode::kConfiguration);
  EXPECT_TRUE(has(error, "verify has no effect: nothing is recomputed")) << error.what();
}

TEST(Verify, EveryBitOfEveryByteCounts) {
  std::vector<uint64_t> hashes;
  for (std::size_t bytes : {0, 1, 7, 8, 9, 31, 32, 33, 100}) {
    std::vector<unsigned char> data(bytes, 0);
    hashes.push_back(hash_bytes(data.data(), bytes));
    for (std::size_t i = 0; i < bytes * 8; ++i) {
      data[i / 8] ^= 1 << i % 8;
      hashes.push_back(hash_bytes(data.data(), bytes));
      data[i / 8] ^= 1 << i % 8;
    }
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace
}  // namespace recollect::test::planted_faults_test
