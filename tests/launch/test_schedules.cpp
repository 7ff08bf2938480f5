// Learning rates: those of every schedule against Transformers' and PyTorch's, as a configuration asks for them
// (tests/golden/make_schedule_goldens.py), and what is said of settings that a schedule does not read.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/config/keys.h"
#include "launch/config/rate_schedule.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::schedules_test {
namespace {

std::string text_of_setting(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

TEST(LearningRates, AreThoseOfTransformersAndTorch) {
  nlohmann::json goldens;
  std::ifstream(std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/schedules.json") >> goldens;
  std::set<std::string> shapes;
  for (const auto& golden : goldens.at("cases")) {
    std::vector<std::string> words = {
        fmt::format("optimizer.learning_rate={}", goldens.at("learning_rate").get<double>()),
        fmt::format("training.max_steps={}", goldens.at("max_steps").get<int64_t>())};
    for (const auto& [key, value] : golden.at("settings").items())
      if (key != "warmup_steps" || value != 0)
        words.push_back(fmt::format("scheduler.{}={}", key, text_of_setting(value)));
    const LearningRateSchedule schedule = rate_schedule(accepted(kLeast, words));
    shapes.insert(std::string(name_of(schedule.name)));
    const std::vector<double> rates = golden.at("rates").get<std::vector<double>>();
    ASSERT_EQ(rates.size(), 20u);
    for (std::size_t step = 0; step < rates.size(); ++step)
      EXPECT_NEAR(learning_rate(schedule, static_cast<int64_t>(step)), rates[step], 1e-17)
          << golden.at("settings") << " step " << step;
  }
  EXPECT_EQ(shapes.size(), kSpellings<SchedulerName>.size());
}

// A run that is resumed for longer may have another schedule than it had.
TEST(LearningRates, FollowTheLengthOfTheRunWhereTheirShapesSay) {
  for (std::size_t i = 0; i < kSpellings<SchedulerName>.size(); ++i) {
    const auto name = static_cast<SchedulerName>(i);
    LearningRateSchedule schedule{
        .name = name, .peak = 1, .total_steps = 20, .decay_steps = 10, .step_size = 4};
    const double here = learning_rate(schedule, 12);
    schedule.total_steps = 30;
    EXPECT_EQ(learning_rate(schedule, 12) != here, follows_length(name)) << name_of(name);
  }
}

TEST(Schedules, NeedWhatHasNoDefault) {
  EXPECT_EQ(refusal(kLeast + "scheduler: {name: warmup_stable_decay}\n"),
            "c.yaml:2:19: scheduler.name warmup_stable_decay needs scheduler.decay_steps or "
            "scheduler.decay_ratio, the steps at the end in which the learning rate falls");
  EXPECT_EQ(
      refusal(kLeast + "scheduler: {name: step}\n"),
      "c.yaml:2:19: scheduler.name step needs scheduler.step_size, the steps from one fall to the next");
  EXPECT_EQ(refusal(kLeast + "scheduler: {name: wsd, decay_steps: 5, decay_ratio: 0.5}\n"),
            "c.yaml:2:19: scheduler.name: for 'wsd' write name: warmup_stable_decay\n"
            "c.yaml:2:37: scheduler.decay_steps and scheduler.decay_ratio are both given; give one");
  EXPECT_EQ(refusal(kLeast + "scheduler: {name: warmup_stable_decay, decay_steps: 5, decay_ratio: 0.5}\n"),
            "c.yaml:2:53: scheduler.decay_steps and scheduler.decay_ratio are both given; give one");
  EXPECT_EQ(
      refusal(kLeast + "scheduler: {name: one_cycle, decay_shape: 1-sqrt}\n"),
      "c.yaml:2:43: scheduler.decay_shape 1-sqrt is one of warmup_stable_decay; one_cycle has cosine and "
      "linear");
  EXPECT_EQ(refusal(kLeast + "scheduler: {name: step, step_size: 5, gamma: 1}\n"),
            "c.yaml:2:46: scheduler.gamma: 1 is out of range; must be in (0, 1)");
}

TEST(Schedules, HaveNoSettingsOfOthers) {
  const std::string has_none = " has no effect with scheduler.name linear: ";
  for (const auto& [setting, why] : std::vector<std::pair<std::string, std::string>>{
           {"num_cycles: 2", "it does not begin again"},
           {"power: 2", "only polynomial has a power"},
           {"timescale: 5", "only inverse_sqrt has a time scale"},
           {"decay_steps: 5", "only warmup_stable_decay falls in the last steps alone"},
           {"decay_ratio: 0.5", "only warmup_stable_decay falls in the last steps alone"},
           {"decay_shape: linear", "it has its own"},
           {"step_size: 5", "only step falls at once"},
           {"gamma: 0.5", "only step falls at once"},
           {"pct_start: 0.5", "only one_cycle has that"},
           {"div_factor: 5", "only one_cycle has that"},
           {"final_div_factor: 5", "only one_cycle has that"}})
    EXPECT_EQ(refusal(kLeast + "scheduler: {name: linear, " + setting + "}\n"),
              fmt::format("c.yaml:2:{}: scheduler.{}{}{}", 27 + setting.find(':') + 2,
                          setting.substr(0, setting.find(':')), has_none, why));
  for (const char* name : {"constant", "inverse_sqrt", "one_cycle", "step, step_size: 3"})
    EXPECT_NE(refusal(kLeast + "scheduler: {min_lr: 1e-5, name: " + name + "}\n")
                  .find("scheduler.min_lr has no effect with scheduler.name"),
              std::string::npos)
        << name;
  EXPECT_EQ(refusal(kLeast + "scheduler: {warmup_steps: 3, name: one_cycle}\n"),
            "c.yaml:2:27: scheduler.warmup_steps has no effect with scheduler.name one_cycle: "
            "scheduler.pct_start says how long the learning rate rises");
  EXPECT_EQ(refusal(kLeast, {"scheduler.name=cosine", "scheduler.num_cycles=1"}),
            "command line: scheduler.num_cycles=1: scheduler.num_cycles has no effect with scheduler.name "
            "cosine: it does not begin again");
}

// What only the length of the run leaves without effect is remarked.
TEST(Schedules, OfAShortRunAreRemarked) {
  using Unreached = std::map<std::string, std::string>;
  const auto unreached = [](const std::string& text) { return accepted(kLeast + text).unreached; };
  EXPECT_EQ(unreached("scheduler: {name: step, step_size: 9}\ntraining: {max_steps: 10}\n"), Unreached{});
  const std::string early =
      "no effect with scheduler.step_size 10 and scheduler.warmup_steps 0 and "
      "scheduler.warmup_ratio 0 and training.max_steps 10: no step comes after the first "
      "fall";
  EXPECT_EQ(unreached("scheduler: {name: step, step_size: 10, gamma: 0.5}\ntraining: {max_steps: 10}\n"),
            (Unreached{{"scheduler.name", early}, {"scheduler.gamma", early}}));
  const std::string decays = "scheduler: {name: warmup_stable_decay, decay_shape: linear, decay_steps: ";
  EXPECT_EQ(unreached(decays + "2}\ntraining: {max_steps: 10}\n"), Unreached{});
  EXPECT_EQ(unreached(decays + "1}\ntraining: {max_steps: 10}\n").count("scheduler.decay_shape"), 1u);
  EXPECT_EQ(unreached("scheduler: {name: one_cycle}\ntraining: {max_steps: 1}\n"), Unreached{});
}

TEST(Schedules, OfOthersAreNamedAsTheirsAre) {
  const Config megatron =
      accepted(kLeast + "scheduler: {name: warmup_stable_decay, lr_wsd_decay_iters: 9}\n");
  EXPECT_EQ(megatron.scheduler.decay_steps, 9);
  EXPECT_EQ(refusal(kLeast + "scheduler: {name: one_cycle, anneal_strategy: cos}\n"),
            "c.yaml:2:47: scheduler.decay_shape: for 'cos' write decay_shape: cosine");
  EXPECT_NE(refusal(kLeast + "lr_scheduler_kwargs: {num_cycles: 3}\n")
                .find("is scheduler.num_cycles here; write num_cycles: 3 in section 'scheduler'"),
            std::string::npos);
}

}  // namespace
}  // namespace recollect::test::schedules_test
