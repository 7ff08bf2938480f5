// Fitting a configuration to a number of ranks, and ranks to each other.
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "launch/ranks/same_configuration.h"
#include "launch/train/train.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_world_test {
namespace {

Config with_batch(int64_t micro, int64_t global, int64_t steps, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"training.micro_batch_size=" + std::to_string(micro),
                                        "training.global_batch_size=" + std::to_string(global),
                                        "training.gradient_accumulation_steps=" + std::to_string(steps)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return accepted(kLeast, overrides);
}

struct Batch {
  int64_t micro, global, steps;              // given; 0: not
  int64_t micro_out, global_out, steps_out;  // with two data-parallel ranks
};

TEST(ConfigWorld, AnyTwoBatchSizesDetermineTheThird) {
  for (const Batch& b : {Batch{0, 0, 0, 1, 2, 1}, Batch{3, 0, 0, 3, 6, 1}, Batch{0, 0, 5, 1, 10, 5},
                         Batch{0, 12, 0, 6, 12, 1}, Batch{3, 12, 0, 3, 12, 2}, Batch{0, 12, 3, 2, 12, 3},
                         Batch{4, 0, 2, 4, 16, 2}, Batch{4, 16, 2, 4, 16, 2}}) {
    Config c = with_batch(b.micro, b.global, b.steps);
    resolve_world(c, 2);
    EXPECT_EQ(c.parallelism.data_parallel_size, 2);
    EXPECT_EQ(c.training.micro_batch_size, b.micro_out);
    EXPECT_EQ(c.training.global_batch_size, b.global_out);
    EXPECT_EQ(c.training.gradient_accumulation_steps, b.steps_out);
    const auto once = flatten(c);
    resolve_world(c, 2);
    EXPECT_EQ(flatten(c), once);
  }
}

std::string world_refusal(Config config, int world) {
  const auto before = flatten(config);
  try {
    resolve_world(config, world);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_EQ(flatten(config), before) << "a refused configuration must stay as it was";
    return error.what();
  }
  return "accepted";
}

TEST(ConfigWorld, RefusesAWorldThatIsNotDataTimesTensor) {
  const Config two = accepted(kLeast, {"parallelism.tp=2"});
  EXPECT_EQ(world_refusal(two, 4), "accepted");
  EXPECT_EQ(world_refusal(two, 3),
            "command line: parallelism.tp=2: a world of 3 ranks cannot be divided into groups of "
            "tensor_parallel_size 2");
  EXPECT_EQ(world_refusal(two, 1),
            "command line: parallelism.tp=2: a world of 1 rank cannot be divided into groups of "
            "tensor_parallel_size 2");
  const Config four = accepted(kLeast + "parallelism: {tp: 2, data_parallel_size: 2}");
  EXPECT_EQ(world_refusal(four, 4), "accepted");
  EXPECT_EQ(world_refusal(four, 8),
            "c.yaml:2:19: tensor_parallel_size 2 x data_parallel_size 2 = 4 ranks, but the world has 8");
  EXPECT_EQ(world_refusal(accepted(kLeast, {"parallelism.communicator=self"}), 2),
            "command line: parallelism.communicator=self: communicator self is a world of one rank, this one "
            "has 2");
}

TEST(ConfigWorld, RefusesWhatTheNumberOfMicroBatchesLeavesWithoutEffect) {
  const Config two = accepted(kLeast +
                              "training: {precision: bf16, fp8: true, fp8_weight_cache: false, "
                              "micro_batch_size: 4, global_batch_size: 8}");
  EXPECT_EQ(world_refusal(two, 1), "accepted");
  EXPECT_EQ(world_refusal(two, 2),
            "c.yaml:2:58: training.fp8_weight_cache has no effect with training.gradient_accumulation_steps "
            "1: a step has one micro-batch, and nothing to keep for others");
  EXPECT_EQ(
      world_refusal(accepted(kLeast + "lora: {rank: 2}\n"
                                      "training: {precision: bf16, fp8: true, fp8_weight_cache: false}"),
                    1),
      "accepted")
      << "frozen weights' codes are kept for all steps";
}

// Each is planned before a run begins.
TEST(ConfigWorld, RefusesMoreLengthsThanCanBePlanned) {
  const std::string twelve =
      "model: {type: gpt2, n_layer: 12, n_positions: 4096}\n"
      "data: {format: jsonl, path: x, padding: longest, pad_to_multiple_of: ";
  const auto padded_to = [&](const std::string& multiple, const std::vector<std::string>& more = {}) {
    return world_refusal(accepted(twelve + multiple + "}", more), 4);
  };
  EXPECT_EQ(
      padded_to("9"),
      "c.yaml:2:70: data.pad_to_multiple_of 9 makes 456 lengths up to data.sequence_length 4096; each is "
      "planned, and with model.n_layer 12 there can be at most 436: raise data.pad_to_multiple_of to 10");
  EXPECT_EQ(padded_to("10"), "accepted");
  EXPECT_EQ(
      padded_to("8", {"model.n_positions=16777216", "model.n_layer=1024"}),
      "c.yaml:2:70: data.pad_to_multiple_of 8 makes 2097152 lengths up to data.sequence_length 16777216; "
      "each is planned, and with model.n_layer 1024 there can be at most 2: give data.padding max");
  // What is not given is large enough.
  const auto by_itself = [&](const std::string& padding) {
    return accepted(
               "model: {type: gpt2, n_layer: 32, n_positions: 4096}\ndata: {format: jsonl, path: x, "
               "padding: " +
               padding + "}")
        .data.pad_to_multiple_of;
  };
  EXPECT_EQ(by_itself("longest"), 24);  // 177 lengths at most
  EXPECT_EQ(by_itself("bucket"), 64);
  const std::vector<std::string> shorter{"data.sequence_length=1024"},
      divided{"data.sequence_length=1024", "parallelism.tp=4", "parallelism.sequence_parallel=true"};
  EXPECT_NE(padded_to("2", shorter), "accepted");
  EXPECT_EQ(padded_to("2", divided), "accepted") << "sequence parallelism pads to multiples of 4";
}

TEST(ConfigWorld, RefusesBatchSizesThatDisagree) {
  EXPECT_EQ(world_refusal(with_batch(3, 32, 0), 4),
            "command line: training.global_batch_size=32: training.global_batch_size 32 is not a multiple of "
            "micro_batch_size 3 x data_parallel_size 4 = 12");
  EXPECT_EQ(world_refusal(with_batch(0, 2, 0), 4),
            "command line: training.global_batch_size=2: training.global_batch_size 2 is not a multiple of "
            "data_parallel_size 4 = 4");
  EXPECT_EQ(world_refusal(with_batch(0, 3, 0,
                                     {"parallelism.tp=2", "parallelism.sequence_parallel=true",
                                      "data.sequence_length=5"}),
                          2),
            "command line: parallelism.sequence_parallel=true: sequence parallelism divides the tokens of a "
            "micro-batch, 3 x 5 = 15, by parallelism.tensor_parallel_size 2, which does not divide them");
}

// The one collective that agreement needs, for threads.
class Gatherer : public Communicator {
 public:
  struct Shared {
    explicit Shared(int ranks) : barrier(ranks), parts(static_cast<std::size_t>(ranks)) {}
    std::barrier<> barrier;
    std::vector<Tensor> parts;
  };

  Gatherer(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.parts.size()); }
  std::string name() const override { return "test"; }
  void all_gather(const Tensor& in, const Tensor& out, void*) override {
    ++gathers;
    shared_.parts[static_cast<std::size_t>(rank_)] = in;
    shared_.barrier.arrive_and_wait();
    ASSERT_EQ(out.bytes(), in.bytes() * shared_.parts.size());
    auto* to = static_cast<char*>(out.data);
    for (const Tensor& part : shared_.parts) {
      ASSERT_EQ(part.bytes(), in.bytes());
      std::memcpy(to, part.data, part.bytes());
      to += part.bytes();
    }
    shared_.barrier.arrive_and_wait();
  }
  void all_reduce(const Tensor&, ReduceOp, void*) override { FAIL(); }
  void reduce_scatter(const Tensor&, const Tensor&, void*) override { FAIL(); }
  void broadcast(const Tensor&, int, void*) override { FAIL(); }
  void barrier() override { shared_.barrier.arrive_and_wait(); }
  void pass(const Parcel&, const Parcel&, void*) override { FAIL(); }
  std::unique_ptr<Communicator> split(int) override { return nullptr; }
  void abort(const std::string&) noexcept override { ++aborts; }

  int gathers = 0, aborts = 0;

 private:
  Shared& shared_;
  int rank_;
};

// Each rank's verdict: "" or the error's message.
std::vector<std::string> verdicts(const std::vector<Config>& configs, int expected_gathers) {
  Gatherer::Shared shared(static_cast<int>(configs.size()));
  std::vector<std::string> said(configs.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < configs.size(); ++r) {
    threads.emplace_back([&, r] {
      Gatherer communicator(shared, static_cast<int>(r));
      try {
        check_ranks_agree(configs[r], communicator);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
        said[r] = error.what();
      }
      EXPECT_EQ(communicator.gathers, expected_gathers);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(ConfigAgreement, EqualConfigurationsAgreeWhereverTheyWereGiven) {
  const std::vector<Config> configs = {accepted(kLeast, {"training.seed=7"}),
                                       accepted(kLeast + "training: {seed: 7}")};
  EXPECT_EQ(verdicts(configs, 1), (std::vector<std::string>{"", ""}));
}

TEST(ConfigAgreement, DifferencesNameKeysValuesAndRanks) {
  const Config base = accepted(kLeast);
  const Config other = accepted(kLeast, {"training.seed=7", "output_dir=another/much/longer/path"});
  const std::string expected =
      "the ranks have different configurations\n"
      "data.seed: 42 on ranks 0, 2-3; 7 on rank 1\n"
      "output_dir: another/much/longer/path on rank 1; output on ranks 0, 2-3\n"
      "training.seed: 42 on ranks 0, 2-3; 7 on rank 1";
  EXPECT_EQ(verdicts({base, other, base, base}, 2), std::vector<std::string>(4, expected));
}

// Ends the process with how many of the ranks have stopped the others, or not found out.
[[noreturn]] void train_with_different_seeds() {
  const ReportSignal signal;
  RankWatch ranks;
  Preemption preemption(ranks);
  Gatherer::Shared shared(3);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      Gatherer world(shared, r);
      const Config config = accepted(kLeast + "parallelism: {data_parallel_size: 3}",
                                     {"training.seed=" + std::to_string(r), "training.global_batch_size=3"});
      try {
        train_rank(config, world, signal, preemption, ranks);
        ++wrong;
      } catch (const Error& error) {
        if (error.code() != ExitCode::kRanksDisagree || world.aborts > 0) ++wrong;
      }
    });
  threads.clear();
  std::_Exit(wrong);
}

// One may still wait for a third one's configuration when the first has all.
TEST(ConfigAgreement, WhoeverKnowsOfDifferencesLeavesTheOthersToHearOfThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(train_with_different_seeds(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace recollect::test::config_world_test
