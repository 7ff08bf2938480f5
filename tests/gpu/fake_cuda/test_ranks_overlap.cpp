// What tensor ranks with devices of their own do beside products, and what looks over it: collectives in pieces, parts of
// sequences, and the hashes of what is computed again, gathered and brought back. Replayed, all of it is as launched.
#include <fmt/format.h>

#include "launch/report/rank_report.h"
#include "tests/gpu/fake_cuda/ranks.h"

namespace recollect::fake_cuda {
namespace {

const Words kTwo = {"parallelism.tensor_parallel_size=2", "data.sequence_length=8",
                    "training.micro_batch_size=2", "training.max_steps=2"};
const Words kPieces = {"parallelism.collective_pieces=3"}, kUncut = {"parallelism.collective_pieces=0"},
            kSequence = {"parallelism.sequence_parallel=true"},
            kFull = {"activation_checkpointing.mode=full"},
            kVerify = {"activation_checkpointing.verify=true"};

// Products and their collectives, cut or not: what is rounded is the same on the fake device.
TEST_F(FakeRanks, CollectivesInPiecesHaveTheBitsOfThoseThatAreWaitedFor) {
  const Words bf16 = with(kTwo, {"training.precision=bf16"});
  for (const auto& [yaml, words] : {std::pair{kTinyOnCuda, kTwo}, std::pair{kTinyLlamaOnCuda, bf16}})
    for (const Words& sequence : {Words{}, kSequence})
      expect_fine(test::run_as_processes(2, [&](Communicator& world) {
        const auto train = [&](RunOrder order, const Words& more, bool replayed) {
          return numbers(world, yaml, with(with(words, sequence), more),
                         {.devices = 2, .order = order, .fused_attention = true}, replayed);
        };
        const std::vector<double> launched = train(RunOrder::kEarly, with(kUncut, kLaunched), false);
        require(launched == train(RunOrder::kLate, kPieces, true), "in pieces");
        require(launched == train(RunOrder::kRandom, with(kPieces, with(kFull, kVerify)), true),
                "computed again, and verified");
      }));
}

// Each half draws the dropout masks of its own samples, as micro-batches of that size do.
TEST_F(FakeRanks, HalvesThatTakeTurnsHaveTheBitsOfMicroBatchesOfTheirSize) {
  const Words halves = {"parallelism.overlap_halves=true"},
              apart = {"training.micro_batch_size=1", "training.global_batch_size=2"},
              untied = {"training.precision=bf16", "model.tie_word_embeddings=false",
                        "model.attention_dropout=0.1"};
  for (const Words& sequence : {Words{}, kSequence})
    expect_fine(test::run_as_processes(2, [&](Communicator& world) {
      const auto train = [&](RunOrder order, const Words& more, bool replayed) {
        return numbers(world, kTinyLlamaOnCuda, with(with(with(kTwo, untied), sequence), more),
                       {.devices = 2, .order = order, .fused_attention = true}, replayed);
      };
      const std::vector<double> launched = train(RunOrder::kEarly, with(halves, kLaunched), false);
      require(launched == train(RunOrder::kEarly, with(apart, with(kUncut, kLaunched)), false), "apart");
      require(launched == train(RunOrder::kLate, halves, true), "replayed");
      require(launched == train(RunOrder::kRandom, with(halves, with(kFull, kVerify)), true),
              "computed again, and verified");
    }));
}

// Products that end with GELU are not cut, and others are; the halves of a batch have them.
TEST_F(FakeRanks, ProductsWithGeluBesideCollectives) {
  const Words halves = {"parallelism.overlap_halves=true", "parallelism.sequence_parallel=true"};
  for (const auto& [waits, overlaps] : {std::pair{kUncut, kPieces}, std::pair{halves, halves}}) {
    const Words words =
        with(kTwo, {"training.precision=bf16", "device.gelu_in_products=true", "model.n_inner=32"});
    expect_fine(test::run_as_processes(2, [&, waits = waits, overlaps = overlaps](Communicator& world) {
      const auto train = [&](RunOrder order, const Words& more, bool replayed) {
        return numbers(world, with(words, more), {.devices = 2, .order = order, .fused_attention = true},
                       replayed);
      };
      const std::vector<double> launched = train(RunOrder::kEarly, with(waits, kLaunched), false);
      require(launched == train(RunOrder::kLate, overlaps, true), "replayed");
      require(launched == train(RunOrder::kRandom, with(overlaps, with(kFull, kVerify)), true),
              "computed again, and verified");
    }));
  }
}

// Their products are not cut.
TEST_F(FakeRanks, ProductsOfFloat8BesideCollectives) {
  const Words words =
      with(with(kTwo, kSequence), {"training.precision=bf16", "training.fp8=true", "data.sequence_length=16",
                                   "model.max_position_embeddings=16", "model.hidden_size=32",
                                   "model.head_dim=16", "model.intermediate_size=32"});
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    const auto train = [&](RunOrder order, const Words& more, bool replayed) {
      return numbers(world, kTinyLlamaOnCuda, with(words, more),
                     {.devices = 2, .order = order, .fused_attention = true}, replayed);
    };
    const std::vector<double> launched = train(RunOrder::kEarly, with(kUncut, kLaunched), false);
    require(launched ==
                train(RunOrder::kLate, with({"parallelism.collective_pieces=1"}, with(kFull, kVerify)), true),
            "computed again");
  }));
}

// The compute stream stands for collectives on other streams where these come late, and the report says for how long.
TEST_F(FakeRanks, ExposedCollectivesAreReported) {
  const std::pair<Words, StreamId> runs[] = {{with(kSequence, kUncut), StreamId::kGather},
                                             {with(kSequence, kPieces), StreamId::kCommunication}};
  for (const auto& [more, stream] : runs) {
    const Words words = with(kTwo, more);
    expect_fine(test::run_as_processes(2, [&, stream = stream](Communicator& world) {
      Config config = read_config_text("test.yaml", kTinyOnCuda, words);
      resolve_world(config, 2);
      const auto look = [&](int64_t step, Session& session) {
        if (step + 1 < config.training.max_steps) return;
        const double exposed = session.executor().waits().exposed(stream);
        const RankReport report = report_of(config, session.measurements());
        require(exposed > 0, fmt::format("{} is waited for", name_of(stream)));
        require(report.step.measured_exposed.by_stream[static_cast<std::size_t>(stream)] ==
                    exposed / static_cast<double>(config.training.max_steps),
                "the report has the mean step");
      };
      numbers(world, words, {.devices = 2, .order = RunOrder::kLate}, true, look);
    }));
  }
}

// From its second run on, the first number that it makes has another bit.
class Forgetful final : public Kernel {
 public:
  explicit Forgetful(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  bool overwrites_to_prepare() const override { return kernel_->overwrites_to_prepare(); }
  void prepare(const KernelArgs& args) override { kernel_->prepare(args); }
  void run(const KernelArgs& args) override {
    kernel_->run(args);
    if (runs_++ == 0) return;
    const auto flip = [first = args.out[0].data] { *static_cast<unsigned char*>(first) ^= 1; };
    cuda::check(enqueue(static_cast<cudaStream_t>(args.stream), flip), "a bit that turns over");
  }
  void check(const RunState& state) override { kernel_->check(state); }

 private:
  std::unique_ptr<Kernel> kernel_;
  int runs_ = 0;
};

// The first op of that kind, or that name, in backward.
OpId op_of_backward(const Graph& graph, std::string_view what) {
  for (const OpId id : graph.op_ids())
    if (const Op& op = graph.op(id);
        op.phase == Phase::kBackward && (op.def->name == what || op.name == what))
      return id;
  throw Error(ExitCode::kInternal, "there is no op " + std::string(what));
}

// The first step is launched; the second one's graph has the fault.
TEST_F(FakeRanks, VerifyNamesWhatComesBackOtherwiseInAReplayedStep) {
  const Words words =
      with({"parallelism.tensor_parallel_size=2", "activation_checkpointing.partition_activations=true"},
           with(kHost, kVerify));
  const std::pair<const char*, const char*> faults[] = {
      {"recompute/layer1/attn/core",
       "recompute/layer1/attn/core is not the layer1/attn/core that forward made in layer 1"},
      {"checkpoint_gather", "fetched/"},
      {"copy_to_device", "fetched/"}};
  for (const auto& [what, named] : faults) {
    const std::vector<test::Outcome> outcomes =
        test::run_as_processes(2, [&, what = what](Communicator& world) {
          const auto edit = [&](TrainingProgram& training) {
            if (world.rank() == 0) return;
            std::unique_ptr<Kernel>& kernel =
                training.program.kernels[op_of_backward(training.program.graph, what)];
            kernel = std::make_unique<Forgetful>(std::move(kernel));
          };
          numbers(world, words, {.devices = 2}, true, {}, {.edit_program = edit, .probe = nullptr});
        });
    EXPECT_NE(outcomes[0].code, ExitCode::kOk) << what << ": " << outcomes[0].message;
    EXPECT_EQ(outcomes[1].code, ExitCode::kIntegrity) << what << ": " << outcomes[1].message;
    EXPECT_NE(outcomes[1].message.find(named), std::string::npos) << outcomes[1].message;
    EXPECT_NE(outcomes[1].message.find("on rank 1, step 2"), std::string::npos) << outcomes[1].message;
  }
}

}  // namespace
}  // namespace recollect::fake_cuda
