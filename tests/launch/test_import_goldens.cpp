// `recollect config import` of Transformers' TrainingArguments against what its Trainer makes of them, value by value of
// `optim`, `lr_scheduler_type` and each strategy (tests/golden/make_import_goldens.py).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/io/file_text.h"
#include "launch/config/epochs.h"
#include "launch/config/import.h"
#include "launch/config/occasions.h"
#include "launch/config/rate_schedule.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::import_goldens_test {
namespace {

using nlohmann::json;

json golden(const std::string& name) {
  std::string text;
  const std::string path = fmt::format("{}/tests/golden/imports/{}.json", RECOLLECT_SOURCE_DIR, name);
  EXPECT_EQ(read_file_text(path, std::size_t{1} << 20, text), "");
  return json::parse(text);
}

Imported imported(const json& arguments) { return import_config_text("args.json", arguments.dump()); }

Config config_of(const Imported& import) {
  std::vector<std::string> words{"data.path=texts"};
  if (import.yaml.find("\nevaluation:\n") != std::string::npos) words.emplace_back("evaluation.path=texts");
  return read_config_text("imported.yaml", import.yaml, words, {.cuda = true});
}

std::string told_of(const Imported& import, const std::string& key) {
  for (const std::string& line : import.left_out)
    if (line.starts_with(key + " ")) return line;
  return "";
}

// All that TrainingArguments write of themselves where nobody gave anything: nothing is told of it.
TEST(ImportGoldens, NothingIsSaidOfWhatNobodyGave) {
  for (const char* version : {"arguments-4", "arguments-5"}) {
    const Imported import = imported(golden(version));
    EXPECT_TRUE(import.left_out.empty()) << version << ": " << fmt::format("{}", import.left_out.front());
    const Config config = config_of(import);
    EXPECT_EQ(config.optimizer.name, "adamw");
    EXPECT_EQ(config.scheduler.name, SchedulerName::kLinear);
    EXPECT_EQ(config.training.epochs, 3);
    EXPECT_EQ(config.snapshot.every_steps, 500);
    EXPECT_EQ(import.yaml.find("\n# "), std::string::npos) << import.yaml;
  }
}

// The class that the Trainer takes, and the bits of its states where it has several.
std::string rule_of(const json& optimizer) {
  const std::string name = optimizer.at("class");
  const bool is_8_bit = optimizer.at("arguments").value("optim_bits", 32) == 8;
  if (name == "transformers.optimization.Adafactor") return "adafactor_hf";
  if (name == "torch.optim.sgd.SGD") return "sgd";
  if (name == "torchao.optim.AdamW8bit") return "adamw8bit";
  if (name == "bitsandbytes.optim.AdamW") return is_8_bit ? "adamw8bit" : "adamw";
  if (name == "bitsandbytes.optim.Lion") return is_8_bit ? "lion8bit" : "lion";
  for (const char* adamw : {"torch.optim.adamw.AdamW", "torch_xla.amp.syncfree.AdamW",
                            "torch_npu.optim.NpuFusedAdamW", "torchdistx.optimizers.AnyPrecisionAdamW"})
    if (name == adamw) return "adamw";
  return "";
}

TEST(ImportGoldens, EveryOptimizerTakesWhatTheTrainerGivesIt) {
  const json all = golden("optimizers");
  std::set<std::string> rules;
  for (const auto& [name, optimizer] : all.at("optim").items()) {
    json arguments = all.at("given");
    arguments["optim"] = name;
    const Imported import = imported(arguments);
    const Config::Optimizer o = config_of(import).optimizer;
    const std::string rule = rule_of(optimizer);
    const json& takes = optimizer.at("arguments");
    if (rule.empty()) {
      EXPECT_NE(told_of(import, "optim").find(": not supported: "), std::string::npos) << name;
      EXPECT_EQ(import.yaml.find("  name: adam"), std::string::npos) << import.yaml;
      EXPECT_EQ(import.yaml.find("beta"), std::string::npos) << import.yaml;
      continue;
    }
    rules.insert(rule);
    EXPECT_EQ(o.name, rule) << name;
    EXPECT_EQ(o.learning_rate, takes.at("lr").get<double>()) << name;
    EXPECT_EQ(o.weight_decay, all.at("given").at("weight_decay").get<double>()) << name << ": of its groups";
    if (takes.contains("betas")) {
      EXPECT_EQ(o.beta1, takes.at("betas").at(0).get<double>()) << name;
      EXPECT_EQ(o.beta2, takes.at("betas").at(1).get<double>()) << name;
    } else {
      EXPECT_EQ(import.yaml.find("beta1"), std::string::npos) << name;
      EXPECT_NE(told_of(import, "adam_beta1").find("does not read it there, either"), std::string::npos)
          << name;
    }
    if (takes.contains("eps") && takes.at("eps").is_number()) {
      EXPECT_EQ(o.epsilon, takes.at("eps").get<double>()) << name;
    }
    if (rule != "adafactor_hf") continue;
    EXPECT_EQ(o.epsilon, takes.at("eps").at(0).get<double>());
    EXPECT_EQ(o.scale_epsilon, takes.at("eps").at(1).get<double>());
    EXPECT_EQ(o.beta1, 0) << "None there";
    EXPECT_EQ(o.clip_threshold, takes.at("clip_threshold").get<double>());
    EXPECT_EQ(o.beta2_decay, takes.at("decay_rate").get<double>());
    EXPECT_EQ(o.scale_parameter, takes.at("scale_parameter").get<bool>());
    EXPECT_EQ(o.relative_step, RelativeStep::kOff);
  }
  EXPECT_EQ(rules.size(), 6u) << "adamw, adafactor_hf, sgd, lion, adamw8bit, lion8bit";
}

// Where nobody gives them Adam's betas are those of TrainingArguments, for Lion too, whose own are others.
TEST(ImportGoldens, LionHasAdamsBetas) {
  EXPECT_EQ(config_of(imported({{"optim", "lion_32bit"}})).optimizer.beta2, 0.999);
  EXPECT_EQ(config_of(imported({{"optim", "sgd"}, {"optim_args", "momentum=0.9"}})).optimizer.momentum, 0.9);
}

TEST(ImportGoldens, EveryScheduleHasTheRatesOfTransformers) {
  const json all = golden("schedules");
  std::set<std::string> carried, left;
  for (const json& one : all.at("cases")) {
    const json& arguments = one.at("arguments");
    const std::string name = arguments.at("lr_scheduler_type");
    const Imported import = imported(arguments);
    if (import.yaml.find("\nscheduler:\n") == std::string::npos) {
      EXPECT_NE(told_of(import, "lr_scheduler_type"), "") << arguments;
      left.insert(name);
      continue;
    }
    carried.insert(name);
    const LearningRateSchedule schedule = rate_schedule(config_of(import));
    for (std::size_t step = 0; step < one.at("rates").size(); ++step)
      EXPECT_NEAR(learning_rate(schedule, static_cast<int64_t>(step)), one.at("rates")[step].get<double>(),
                  1e-17)
          << arguments << ", step " << step << "\n"
          << import.yaml;
  }
  EXPECT_EQ(carried, (std::set<std::string>{"constant", "constant_with_warmup", "cosine",
                                            "cosine_with_min_lr", "cosine_with_restarts", "inverse_sqrt",
                                            "linear", "polynomial", "warmup_stable_decay"}));
  EXPECT_EQ(left, (std::set<std::string>{"cosine", "cosine_warmup_with_min_lr", "cosine_with_min_lr",
                                         "greedy", "reduce_lr_on_plateau", "warmup_stable_decay"}))
      << "and with arguments that ours do not have";
}

// Transformers 4 has two keys for the warm-up; of those above 0 the steps win.
TEST(ImportGoldens, StepsOfWarmUpGoBeforeTheirRatio) {
  const auto warm_up = [](const json& more) {
    json arguments{{"max_steps", 100}};
    arguments.update(more);
    return warmup_steps(config_of(imported(arguments)));
  };
  EXPECT_EQ(warm_up({{"warmup_steps", 5}, {"warmup_ratio", 0.1}}), 5);
  EXPECT_EQ(warm_up({{"warmup_steps", 0}, {"warmup_ratio", 0.1}}), 10);
  EXPECT_EQ(warm_up({{"warmup_steps", 0}, {"warmup_ratio", 0.0}}), 0);
  EXPECT_EQ(warm_up({{"warmup_steps", 5}, {"lr_scheduler_type", "constant"}}), 0);
}

std::vector<int64_t> steps_after(const Config& config, int64_t samples, int64_t every_steps,
                                 double every_epochs) {
  std::vector<int64_t> steps;
  const int64_t batch = config.training.global_batch_size, last = config.training.max_steps;
  for (int64_t step = 1; step <= last; ++step)
    if (is_occasion(every_steps, every_epochs, {step, step * batch, batch, samples})) steps.push_back(step);
  return steps;
}

TEST(ImportGoldens, EveryStrategyHappensWhenItDoesThere) {
  const json all = golden("strategies");
  const int64_t samples = all.at("samples");
  for (const json& one : all.at("cases")) {
    json arguments = one.at("arguments");
    arguments["num_train_epochs"] = all.at("epochs");
    arguments["per_device_train_batch_size"] = all.at("batch");
    Config config = config_of(imported(arguments));
    resolve_world(config, 1);
    if (config.training.epochs > 0) complete_steps(config, samples);
    const int64_t last = config.training.max_steps;
    EXPECT_EQ(last, one.at("steps").get<int64_t>());
    const auto with_last = [&](std::vector<int64_t> steps) {
      if (steps.empty() || steps.back() != last) steps.push_back(last);
      return steps;
    };
    const Config::Evaluation& e = config.evaluation;
    const std::vector<int64_t> evaluates =
        e.runs() ? with_last(steps_after(config, samples, e.every_steps, e.every_epochs))
                 : std::vector<int64_t>();
    EXPECT_EQ(evaluates, one.at("evaluates").get<std::vector<int64_t>>()) << arguments;
    const Config::Snapshot& s = config.snapshot;
    const std::vector<int64_t> saves =
        config.saves_snapshots() ? with_last(steps_after(config, samples, s.every_steps, s.every_epochs))
                                 : std::vector<int64_t>();
    EXPECT_EQ(saves, one.at("saves").get<std::vector<int64_t>>()) << arguments;
    const Config::Logging& l = config.logging;
    if (arguments.contains("logging_strategy") && arguments["logging_strategy"] != "no") {
      EXPECT_EQ(steps_after(config, samples, l.steps, l.every_epochs),
                one.at("logs").get<std::vector<int64_t>>())
          << arguments;
    }
    EXPECT_EQ(config.checkpoint.save_best_model,
              arguments.contains("load_best_model_at_end") || arguments.value("save_strategy", "") == "best");
  }
}

}  // namespace
}  // namespace recollect::test::import_goldens_test
