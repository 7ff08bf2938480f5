// The planner's solver: against the optima of a mixed-integer solver and of an independent dynamic program
// (tests/golden/make_chain_goldens.py) on hundreds of chains, and in time.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <optional>

#include "checkpointing/planner/chain_search.h"
#include "engine/io/json.h"
#include "tests/checkpointing/made_chain.h"

namespace recollect::test::chain_test {
namespace {

constexpr double kTolerance = 1e-3;  // of the step

nlohmann::json goldens() {
  return nlohmann::json::parse(std::ifstream(RECOLLECT_SOURCE_DIR "/tests/golden/chains.json"));
}

// What a mixed-integer solver knows of a chain: what its best choice takes, if it has one, and what none is below.
struct Optimum {
  bool fits = false;
  std::optional<double> found = {};
  double below = 0;
};

Optimum optimum_of(const nlohmann::json& golden) {
  if (golden.empty()) return {};
  return {.fits = true,
          .found = golden[0].is_null() ? std::nullopt : std::optional<double>(golden[0]),
          .below = golden[1]};
}

// What is wrong with a plan, or "".
std::string fault_of(const std::optional<ChainPlan>& plan, const MadeChain& chain, const Optimum& optimum) {
  if (!plan) return optimum.fits ? "no plan, and there is one" : "";
  if (!optimum.fits) return "a plan where none fits";
  const ChainPlan taken = evaluate(chain, plan->options);
  if (taken.seconds != plan->seconds || taken.device != plan->device) return "it takes something else";
  if (plan->device > chain.budgets.device || plan->host > chain.budgets.host ||
      plan->disk > chain.budgets.disk)
    return "over a budget";
  if (plan->lower_bound > plan->seconds) return "below its own bound";
  if (plan->seconds < optimum.below) return "below what is proven";
  if (!optimum.found) return "";
  if (plan->lower_bound > *optimum.found) return "a bound that a choice is below";
  const bool proven = *optimum.found == optimum.below;
  if (proven && plan->seconds > *optimum.found * (1 + kTolerance)) return "far from the optimum";
  return "";
}

// Two layers, each with all saved, recomputed, or on the host.
TEST(Chain, TakesWhatItsDefinitionSays) {
  const std::vector<ChainOption> options = {
      {.held = 100},
      {.held = 10, .arrives = 90, .seconds = 7},
      {.arrives = 100, .ahead = 100, .leaves = 100, .host = 100, .out = 12, .in = 25}};
  const ChainLayer layer{
      .forward = 10, .backward = 20, .forward_bytes = 40, .backward_bytes = 50, .options = options};
  const Chain chain{.layers = {layer, layer}, .head_bytes = 30};
  const auto expect = [&](const std::vector<int>& options, double seconds, uint64_t device, uint64_t host) {
    const ChainPlan plan = evaluate(chain, options);
    EXPECT_EQ(plan.seconds, seconds);
    EXPECT_EQ(plan.device, device);
    EXPECT_EQ(plan.host, host);
  };
  expect({0, 0}, 60, 250, 0);              // the last backward, beside both layers
  expect({1, 0}, 67, 160, 0);              // beside the first one's input
  expect({1, 1}, 74, 160, 0);              // the same: the rest of the layer is recomputed here
  expect({2, 0}, 60 + 2 + 5, 250, 100);    // each copy is longer than what runs beside it
  expect({2, 1}, 67 + 2, 250, 100);        // recomputation hides the rest of the second
  expect({0, 2}, 60 + 12 + 25, 250, 100);  // nothing runs beside the last layer's copies
}

TEST(Chain, IsSolvedAsAMixedIntegerSolverDoes) {
  const nlohmann::json optima = goldens().at("optima");
  ASSERT_GE(optima.size(), 500u);
  int proven = 0;
  for (std::size_t n = 0; n < optima.size(); ++n) {
    const MadeChain chain(static_cast<int>(n));
    const Optimum optimum = optimum_of(optima[n]);
    EXPECT_EQ(fault_of(solve(chain, chain.budgets), chain, optimum), "") << n;
    proven += optimum.found == optimum.below;
  }
  EXPECT_GT(proven, 450);
}

TEST(Chain, OnTheDeviceAloneIsSolvedAsByRotor) {
  const nlohmann::json seconds = goldens().at("device_only");
  ASSERT_GE(seconds.size(), 100u);
  for (std::size_t n = 0; n < seconds.size(); ++n) {
    const MadeChain chain(static_cast<int>(n), true);
    const std::optional<ChainPlan> plan = solve(chain, {.device = chain.budgets.device});
    ASSERT_EQ(plan.has_value(), !seconds[n].is_null()) << n;
    if (plan) {
      EXPECT_EQ(plan->seconds, double(seconds[n])) << n;
    }
  }
}

// Tests of the tests: a bound that is wrong by little, and a plan that is worse by little.
TEST(Chain, WrongBoundsAndPlansAreNoticed) {
  const nlohmann::json optima = goldens().at("optima");
  int bounds = 0, plans = 0;
  for (std::size_t n = 0; n < 48; ++n) {
    const MadeChain chain(static_cast<int>(n));
    const Optimum optimum = optimum_of(optima[n]);
    std::optional<ChainPlan> plan = solve(chain, chain.budgets);
    if (!plan || !optimum.found) continue;
    const double bound = plan->lower_bound;
    plan->lower_bound = bound * 1.0001;
    bounds += fault_of(plan, chain, optimum) != "";
    plan->lower_bound = bound;
    ChainBudgets less = chain.budgets;
    less.device -= less.device / 20;
    if (const std::optional<ChainPlan> worse = solve(chain, less))
      plans += fault_of(worse, chain, optimum) != "";
  }
  EXPECT_GT(bounds, 40);
  EXPECT_GT(plans, 20);
}

TEST(Chain, FrontierRisesInBytesAndFallsInSeconds) {
  for (int n = 3; n < 120; n += 5) {
    const MadeChain chain(n);
    for (const ChainBudgets& budgets : {ChainBudgets{}, chain.budgets}) {
      const std::vector<ChainPlan> plans = frontier(chain, budgets.host, budgets.disk, 12);
      EXPECT_LE(plans.size(), 12u);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        EXPECT_LE(plans[i].host, budgets.host);
        EXPECT_LE(plans[i].disk, budgets.disk);
        if (i > 0) {
          EXPECT_GT(plans[i].device, plans[i - 1].device) << n;
          EXPECT_LT(plans[i].seconds, plans[i - 1].seconds) << n;
        }
        const std::optional<ChainPlan> best = solve(chain, {plans[i].device, budgets.host, budgets.disk});
        ASSERT_TRUE(best);
        EXPECT_GE(plans[i].seconds, best->lower_bound) << n;
        EXPECT_LE(plans[i].seconds, best->seconds * (1 + 5 * kTolerance)) << n;
      }
    }
  }
}

// Seconds with fractions are added in one order, so that a choice is judged as it was found.
TEST(Chain, SecondsAreThoseThatTheSearchAddedUp) {
  for (int n = 0; n < 60; ++n) {
    MadeChain chain(n);
    for (ChainLayer& layer : chain.layers) {
      for (double* seconds : {&layer.forward, &layer.backward}) *seconds *= 1.0 / 3;
      for (ChainOption& o : layer.options)
        for (double* seconds : {&o.seconds, &o.in, &o.out}) *seconds *= 1.0 / 3;
    }
    const auto found = find_choice(ChainCosts(chain), chain.budgets, Effort::kRoughly);
    if (!found) continue;
    EXPECT_EQ(evaluate(chain, found->options).seconds, found->seconds) << n;
  }
}

TEST(Chain, FrontierIsFoundInTime) {
  int chains = 0;
  const std::clock_t begin = std::clock();
  for (int n = 10; n < 504; n += 48) {
    const MadeChain chain(n);
    ASSERT_EQ(chain.layers.size(), 48u);
    EXPECT_GT(frontier(chain, ChainBudgets::kAny, ChainBudgets::kAny, 32).size(), 1u);
    ++chains;
  }
  EXPECT_LE(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / chains, 40);
}

TEST(Chain, IsSolvedInTime) {
  for (const auto& [layers, milliseconds] : {std::pair{48, 15.0}, {96, 50.0}}) {
    int chains = 0;
    const std::clock_t begin = std::clock();
    for (int n = 0; n < 504; ++n) {
      if (n % 12 != (layers == 48 ? 10 : 11)) continue;
      const MadeChain chain(n);
      ASSERT_EQ(chain.layers.size(), static_cast<std::size_t>(layers));
      solve(chain, chain.budgets);
      ++chains;
    }
    EXPECT_LE(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / chains, milliseconds)
        << layers;
  }
}

}  // namespace
}  // namespace recollect::test::chain_test
