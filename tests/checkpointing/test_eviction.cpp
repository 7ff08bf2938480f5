// Dynamic tensor rematerialization: step by step on a trace to be read, against an independent transcription
// (tests/golden/make_eviction_goldens.py) on hundreds of others, and its theorem on chains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "checkpointing/planner/eviction.h"
#include "engine/io/json.h"

namespace recollect::test::eviction_test {
namespace {

constexpr int kUnlimited = 1 << 30;
constexpr uint64_t kEverything = uint64_t{1} << 60;
constexpr EvictionHeuristic kAll[] = {EvictionHeuristic::kDtr, EvictionHeuristic::kDtrEq,
                                      EvictionHeuristic::kLocal, EvictionHeuristic::kLru};

// The generator of make_eviction_goldens.py.
struct Random {
  uint64_t state;
  uint64_t below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

struct MadeTrace : EvictionTrace {
  explicit MadeTrace(Random& r) : random(r) {}

  int tensor(uint64_t bytes, bool pinned = false) {
    tensors.push_back({bytes, pinned});
    return static_cast<int>(tensors.size()) - 1;
  }
  std::vector<int> op(std::vector<int> inputs, const std::vector<uint64_t>& sizes, bool pinned = false,
                      bool in_place = false) {
    EvictionOp op{.cost = 1 + random.below(40), .inputs = std::move(inputs)};
    for (uint64_t bytes : sizes) op.outputs.push_back(tensor(bytes, pinned));
    if (in_place) op.in_place = {{op.outputs[0], op.inputs[0]}};
    ops.push_back(op);
    return op.outputs;
  }
  template <typename Held>
  void finish(const Held& held) {
    std::map<int, std::size_t> last;
    std::map<int, bool> made;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (int t : ops[i].outputs) made[t] = true;
      for (const auto* list : {&ops[i].inputs, &ops[i].outputs})
        for (int t : *list) last[t] = i;
    }
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t)
      if (made[t] && !held(t)) ops[last[t]].releases.push_back(t);
    for (EvictionOp& op : ops)
      std::erase_if(op.in_place, [&](const auto& pair) {
        const auto& [out, in] = pair;
        return std::count(op.releases.begin(), op.releases.end(), in) == 0 ||
               tensors[out].bytes != tensors[in].bytes ||
               std::count(op.inputs.begin(), op.inputs.end(), in) != 1;
      });
  }

  Random& random;
};

MadeTrace make_chain(Random& random) {
  MadeTrace trace(random);
  const int n = 4 + static_cast<int>(random.below(40));
  std::vector<int> made = {trace.tensor(1 + random.below(20), true)};
  const auto one = [&](std::vector<int> inputs, bool pinned) {  // an op's size is drawn before its cost
    const uint64_t bytes = 1 + random.below(20);
    return trace.op(std::move(inputs), {bytes}, pinned).front();
  };
  for (int i = 0; i < n; ++i) made.push_back(one({made.back()}, false));
  int gradient = one({made.back()}, true);
  for (int i = n - 1; i >= 0; --i) gradient = one({gradient, made[static_cast<std::size_t>(i)]}, true);
  trace.finish([](int) { return false; });
  return trace;
}

MadeTrace make_transformer(Random& random, uint64_t layers, uint64_t size) {
  MadeTrace trace(random);
  std::vector<std::vector<int>> read;
  int x = trace.tensor(size, true);
  for (uint64_t layer = 0; layer < layers; ++layer)
    for (const uint64_t wide : {3, 4}) {
      const std::vector<int> normed = trace.op({x}, {size, 1});
      const std::vector<int> inner = trace.op({normed[0]}, {wide * size});
      const std::vector<int> core =
          wide == 3 ? trace.op({inner[0]}, {size, 1}) : trace.op({inner[0]}, {wide * size});
      const std::vector<int> out = trace.op({core[0]}, {size});
      const std::vector<int> total = trace.op({out[0], x}, {size}, false, true);
      read.push_back({x, normed[1]});
      read.push_back({normed[0]});
      read.push_back(inner);
      if (core.size() > 1) read.back().push_back(core[1]);
      read.push_back({core[0]});
      x = total[0];
    }
  int gradient = trace.op({x}, {size}, true).front();
  for (auto inputs = read.rbegin(); inputs != read.rend(); ++inputs) {
    inputs->insert(inputs->begin(), gradient);
    gradient = trace.op(*inputs, {size}, true, true).front();
  }
  trace.finish([](int) { return false; });
  return trace;
}

MadeTrace make_anything(Random& random) {
  MadeTrace trace(random);
  std::vector<int> made;
  for (uint64_t i = 1 + random.below(3); i > 0; --i) made.push_back(trace.tensor(1 + random.below(9), true));
  for (uint64_t i = 10 + random.below(40); i > 0; --i) {
    std::vector<int> inputs;
    for (uint64_t j = 1 + random.below(3); j > 0; --j) {
      const std::size_t window = random.below(4) == 0 ? made.size() : std::min<std::size_t>(made.size(), 8);
      inputs.push_back(made[made.size() - 1 - random.below(window)]);
    }
    const bool pinned = random.below(10) == 0, same = random.below(4) == 0;
    std::vector<uint64_t> sizes = {same ? trace.tensors[static_cast<std::size_t>(inputs[0])].bytes
                                        : 1 + random.below(9)};
    if (random.below(5) == 0) sizes.push_back(random.below(4));
    for (int t : trace.op(inputs, sizes, pinned, same)) made.push_back(t);
  }
  trace.finish([](int t) { return t % 7 == 3; });
  return trace;
}

MadeTrace make_trace(uint64_t seed, Random& random) {
  if (seed % 3 == 0) return make_chain(random);
  if (seed % 3 == 2) return make_anything(random);
  const uint64_t layers = 1 + random.below(5), size = 4 + random.below(12);
  return make_transformer(random, layers, size);
}

std::string text_of(const EvictionRun& run) {
  uint64_t hash = 14695981039346656037u;
  for (const auto& [kind, which] : run.steps)
    hash = (hash ^ (static_cast<uint64_t>(which) * 4 + kind)) * 1099511628211u;
  return fmt::format("{},{},{},{:016x}", static_cast<int>(run.end), run.cost, run.peak, hash);
}

TEST(Eviction, DecidesAsTheTranscriptionDoes) {
  std::ifstream file(RECOLLECT_SOURCE_DIR "/tests/golden/eviction.json");
  const auto runs = nlohmann::json::parse(file).at("runs").get<std::vector<std::string>>();
  ASSERT_GE(runs.size(), 200u);
  for (uint64_t seed = 0; seed < runs.size(); ++seed) {
    Random random{seed};
    const MadeTrace trace = make_trace(seed, random);
    const uint64_t peak = run_with_eviction(trace, kEverything, EvictionHeuristic::kLru, kUnlimited).peak;
    const uint64_t budget = peak * (30 + random.below(66)) / 100;
    std::string made;
    for (EvictionHeuristic h : kAll) {
      const EvictionRun run = run_with_eviction(trace, budget, h, 20 * static_cast<int>(trace.ops.size()));
      EXPECT_LE(run.end == EvictionEnd::kTooLittle ? 0 : run.peak, budget);
      made += (made.empty() ? "" : " ") + text_of(run);
    }
    EXPECT_EQ(made, runs[seed]) << "trace " << seed;
  }
}

// Tensor 0 is there; op i makes tensor i + 1 of the one before; then each is read again, from the last on.
EvictionTrace unit_chain(int n) {
  EvictionTrace trace;
  trace.tensors.push_back({0, true});
  for (int i = 0; i < n; ++i) {
    trace.tensors.push_back({1, false});
    trace.ops.push_back({.cost = 1, .inputs = {i}, .outputs = {i + 1}});
  }
  for (int i = n; i > 0; --i) {
    std::vector<int> inputs = {i};
    if (i < n) inputs.push_back(static_cast<int>(trace.tensors.size()) - 1);
    trace.ops.push_back({.cost = 1,
                         .inputs = inputs,
                         .outputs = {static_cast<int>(trace.tensors.size())},
                         .releases = inputs});
    trace.tensors.push_back({1, true});
  }
  return trace;
}

std::string text_of(const std::vector<EvictionStep>& steps) {
  constexpr const char* kWords[] = {"run", "evict", "again", "release"};
  std::string text;
  for (const auto& [kind, which] : steps) text += fmt::format("{} {}\n", kWords[kind], which);
  return text;
}

// The one tensor that op 2 does not read, and that is stale, goes; the second op of backward misses it.
TEST(Eviction, OfAChainStepByStep) {
  const EvictionRun run = run_with_eviction(unit_chain(3), 3, EvictionHeuristic::kDtr, kUnlimited);
  EXPECT_EQ(text_of(run.steps), R"(run 0
run 1
run 2
evict 1
run 3
release 3
run 4
release 2
release 4
again 0
run 5
release 1
release 5
)");
  EXPECT_EQ(run.cost, 7u);
  EXPECT_EQ(run.peak, 3u);
  EXPECT_EQ(run.evictions, 1);
  EXPECT_EQ(run.rematerializations, 1);
}

// Another one goes in its place.
TEST(Eviction, LeavesWhatIsHeldUntilItIsReleased) {
  EvictionTrace trace = unit_chain(4);
  const EvictionStep evicts_it{EvictionStep::kEvict, 1};
  const EvictionRun free = run_with_eviction(trace, 4, EvictionHeuristic::kDtr, kUnlimited);
  EXPECT_EQ(std::count(free.steps.begin(), free.steps.end(), evicts_it), 1);
  trace.tensors[1].held = true;
  const EvictionRun run = run_with_eviction(trace, 4, EvictionHeuristic::kDtr, kUnlimited);
  EXPECT_EQ(run.end, EvictionEnd::kDone);
  EXPECT_EQ(std::count(run.steps.begin(), run.steps.end(), evicts_it), 0);
  EXPECT_EQ(std::count(run.steps.begin(), run.steps.end(), EvictionStep{EvictionStep::kEvict, 2}), 1);
  EXPECT_EQ(std::count(run.steps.begin(), run.steps.end(), EvictionStep{EvictionStep::kRelease, 1}), 1);
}

TEST(Eviction, SaysWhatDoesNotFit) {
  EXPECT_EQ(run_with_eviction(unit_chain(3), 2, EvictionHeuristic::kDtr, kUnlimited).end,
            EvictionEnd::kTooLittle);
  const EvictionRun often = run_with_eviction(unit_chain(64), 5, EvictionHeuristic::kLru, 300);
  EXPECT_EQ(often.end, EvictionEnd::kTooOften);
  EXPECT_GT(often.op, 64);
  EvictionTrace constant;
  constant.tensors.push_back({8, false});
  EXPECT_EQ(run_with_eviction(constant, 7, EvictionHeuristic::kDtr, kUnlimited).end, EvictionEnd::kTooLittle);
  EXPECT_EQ(run_with_eviction(constant, 8, EvictionHeuristic::kDtr, kUnlimited).peak, 8u);
}

TEST(Eviction, WithRoomForEverythingNothingIsEvicted) {
  Random random{7};
  const MadeTrace trace = make_transformer(random, 4, 8);
  const uint64_t peak = run_with_eviction(trace, kEverything, EvictionHeuristic::kDtr, kUnlimited).peak;
  for (EvictionHeuristic h : kAll) {
    EXPECT_EQ(run_with_eviction(trace, peak, h, kUnlimited).evictions, 0);
    EXPECT_GT(run_with_eviction(trace, peak - 1, h, kUnlimited).evictions, 0);
  }
}

// Theorem 3.1 of the paper: O(n) ops in 2 sqrt(n) memory. Its heuristic knows the neighbourhood; without it the
// ops of a chain grow faster than the chain.
TEST(Eviction, OfChainsInTwoRootsOfMemoryTakesThreeTimesTheirLength) {
  const auto ops_per_link = [](int n, EvictionHeuristic h) {
    const auto budget = static_cast<uint64_t>(2 * std::ceil(std::sqrt(n)));
    const EvictionRun run = run_with_eviction(unit_chain(n), budget, h, kUnlimited);
    EXPECT_EQ(run.end, EvictionEnd::kDone) << n;
    return static_cast<double>(run.cost) / n;
  };
  for (const int n : {4, 9, 16, 37, 64, 100, 256, 500, 512, 777, 1000, 1024}) {
    EXPECT_LE(ops_per_link(n, EvictionHeuristic::kDtr), 3) << n;
    EXPECT_LE(ops_per_link(n, EvictionHeuristic::kDtrEq), 3) << n;
  }
  for (EvictionHeuristic h : {EvictionHeuristic::kLocal, EvictionHeuristic::kLru})
    EXPECT_GT(ops_per_link(1024, h), 1.5 * ops_per_link(256, h));
}

// 48 layers, 865 ops: a planner runs some dozens of such simulations.
TEST(Eviction, OfFortyEightLayersTakesLessThanASecond) {
  Random random{3};
  const MadeTrace trace = make_transformer(random, 48, 1 << 10);
  const uint64_t peak = run_with_eviction(trace, kEverything, EvictionHeuristic::kDtr, kUnlimited).peak;
  for (EvictionHeuristic h : {EvictionHeuristic::kDtr, EvictionHeuristic::kDtrEq}) {
    const std::clock_t start = std::clock();  // of the processor, whatever else it does
    const EvictionRun run = run_with_eviction(trace, peak / 4, h, kUnlimited);
    EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
    EXPECT_EQ(run.end, EvictionEnd::kDone);
    EXPECT_LE(run.peak, peak / 4);
  }
}

}  // namespace
}  // namespace recollect::test::eviction_test
