#include "launch/config/lora_keys.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "launch/config/key_makers.h"

namespace recollect {

namespace {

bool has_no_adapters(const Config& c) { return c.lora.rank == 0; }

// What PEFT trains whole beside the adapters of such a model.
std::vector<std::string> head_modules(Task task) {
  switch (task) {
    case Task::kSequenceClassification:
    case Task::kMultipleChoice:
    case Task::kTokenClassification:
      return {"classifier"};
    case Task::kQuestionAnswering:
      return {"qa_outputs"};
    default:
      return {};
  }
}

}  // namespace

void add_lora_keys(std::vector<ConfigKey>& keys) {
  using S = Config::Lora;
  const Adder<S> add(keys, "lora", &Config::lora);
  add("rank", &S::rank, between(0, 65536),
      "of the adapters; 0: there are none, and all of the model is trained");
  add("alpha", &S::alpha, above(0), "what an adapter adds is times alpha / rank");
  add("dropout", &S::dropout, fraction(), "of what an adapter reads");
  add("targets", &S::targets, any(),
      "linear modules that get adapters, by the ends of their names in files, or all-linear; a list; not "
      "given: "
      "those that PEFT takes of the model's family");
  add("rslora", &S::rslora, any(), "times alpha / sqrt(rank) instead");
  add("modules_to_save", &S::modules_to_save, any(),
      "modules that are trained whole and saved with the adapters; a list; not given: the head of a task "
      "with labels");
  add("path", &S::path, any(),
      "folder with adapter_config.json and adapter_model.safetensors of PEFT's to start from");
  add("merge", &S::merge, any(), "with the adapters save the model that they make, in output_dir/merged");
}

std::vector<Finding> complete_lora(Config& config, Config& otherwise) {
  Config::Lora& lora = config.lora;
  std::vector<Finding> found;
  if (!lora.path.empty()) merge_adapter_config(config, otherwise, found);
  if (lora.rank == 0) return found;
  const auto derive = [&](const char* key, std::vector<std::string> Config::Lora::*member,
                          const std::vector<std::string>& made, const char* from) {
    otherwise.lora.*member = made;
    if (config.origins.contains(key) || config.derived.contains(key)) return;
    lora.*member = made;
    config.derived[key] = from;
  };
  derive("lora.targets", &Config::Lora::targets, config.model.family().adapted, "model.type");
  derive("lora.modules_to_save", &Config::Lora::modules_to_save, head_modules(config.task), "task");
  return found;
}

void check_lora(const Config& config, std::vector<Finding>& found) {
  const Config::Lora& lora = config.lora;
  if (lora.rank == 0) return;
  if (lora.targets.empty())
    found.push_back({{"lora.targets", "lora.rank"}, "lora.targets is empty: no module gets an adapter"});
  const bool saves = config.checkpoint.save_model || config.checkpoint.save_best_model;
  // Of a snapshot's configuration it may be left empty, and nothing is saved by that.
  if (saves && !config.origins.contains("model.pretrained"))
    found.push_back({{"checkpoint.save_model", "checkpoint.save_best_model", "lora.rank"},
                     "checkpoint.save_model saves adapters alone, and nobody has the model that they are of: "
                     "it is drawn; name "
                     "one in model.pretrained"});
  if (lora.merge && config.model.pretrained.empty())
    found.push_back({{"lora.merge", "model.pretrained"},
                     "lora.merge makes a model of the files in model.pretrained, which names none"});
}

std::vector<InertRule> inert_lora_rules() {
  return {
      {{"lora.alpha", "lora.dropout", "lora.targets", "lora.rslora", "lora.modules_to_save", "lora.merge"},
       {"lora.rank"},
       has_no_adapters,
       "there are no adapters"},
      {{"lora.rank", "lora.alpha", "lora.targets", "lora.rslora", "lora.modules_to_save"},
       {"training.max_steps", "lora.path"},
       [](const Config& c) { return c.training.max_steps == 0 && c.lora.path.empty(); },
       "new adapters add nothing"},
      {{"lora.dropout"},
       {"training.max_steps"},
       [](const Config& c) { return c.training.max_steps == 0; },
       "nothing is trained"},
      {{"lora.merge"},
       {"checkpoint.save_model"},
       [](const Config& c) { return !c.checkpoint.save_model; },
       "no model is saved"},
  };
}

LoraSettings lora_settings(const Config& config) {
  const Config::Lora& lora = config.lora;
  return {.rank = lora.rank,
          .alpha = lora.alpha,
          .dropout = lora.dropout,
          .rank_stabilized = lora.rslora,
          .targets = lora.targets,
          .modules_to_save = lora.modules_to_save};
}

bool holds_adapters(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + kAdapterFile, error) &&
         std::filesystem::exists(folder + kAdapterConfig, error);
}

}  // namespace recollect
