// What settings of adapters name, held against the modules that a model has.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/spelling.h"
#include "parallel/lora.h"

namespace recollect {

namespace {

constexpr std::size_t kModulesShown = 12;

// Without layers' numbers and what stands before them.
std::string_view leaf_of_module(std::string_view module) { return module.substr(module.rfind('.') + 1); }

[[noreturn]] void refuse_adapters(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kConfiguration, what, hint);
}

[[noreturn]] void refuse_module(const std::string& key, const std::string& name,
                                const std::set<std::string>& leaves) {
  const std::vector<std::string_view> candidates(leaves.begin(), leaves.end());
  const bool pattern = is_pattern(name);
  const std::string near = pattern ? "" : nearest(leaf_of_module(name), candidates);
  const std::size_t shown = std::min(candidates.size(), kModulesShown);
  refuse_adapters(fmt::format("lora.{}: {} '{}'{}", key,
                              pattern ? "no whole name of a module matches" : "the model has no module",
                              printable(name), near.empty() ? "" : fmt::format("; did you mean '{}'?", near)),
                  fmt::format("it has {}{}", fmt::join(candidates.begin(), candidates.begin() + shown, ", "),
                              shown < candidates.size() ? " and others" : ""));
}

// Tables of tokens, positions and types, and heads of language models: modules that PEFT can adapt and this program cannot.
void refuse_table(const Model& model, const AdapterRules& rules, const std::string& target) {
  for (const Parameter& p : model.parameters) {
    if (p.adapter || p.linear || p.vector) continue;
    for (const std::string& module : modules_of(p))
      if (target != kAllLinear && rules.names(target, module))
        refuse_adapters(
            fmt::format("lora.targets: '{}' is {}, and embeddings and heads of language models get no "
                        "adapters here",
                        printable(target), model.files.in_file(p.name)),
            "leave it out; lora.modules_to_save trains such a table whole, unless it is tied to another");
  }
  for (const auto& [second, first] : model.files.tied)
    if (target != kAllLinear && rules.names(target, module_of(second)))
      refuse_adapters(
          fmt::format("lora.targets: '{}' is {}, which is the same table as {} in this model: heads of "
                      "language models "
                      "get no adapters here",
                      printable(target), second, model.files.in_file(first)),
          "leave it out");
}

void check_targets(const Model& model, const AdapterRules& rules) {
  const LoraSettings& settings = rules.settings();
  std::set<std::string> leaves;
  const std::vector<std::string> modules = linear_modules(model.parameters);
  for (const std::string& module : modules) leaves.emplace(leaf_of_module(module));
  const auto names_one = [&](const std::string& entry) {
    return std::any_of(modules.begin(), modules.end(),
                       [&](const std::string& module) { return rules.names(entry, module); });
  };
  for (const std::string& target : settings.targets) {
    refuse_table(model, rules, target);
    if (!settings.from_file && !names_one(target)) refuse_module("targets", target, leaves);
  }
  for (const std::string& entry : settings.exclude)
    if (!settings.from_file && !names_one(entry)) refuse_module("exclude_modules", entry, leaves);
  if (has_adapters(model.parameters)) return;
  if (!settings.layers.empty())
    refuse_adapters(
        fmt::format("no module that lora.targets names is in the layers {} of lora.layers_to_transform",
                    fmt::join(settings.layers, ", ")),
        "layers are counted from 0; lora.layers_pattern is what stands before their numbers in names, "
        "such as "
        "layers or h");
  if (!settings.exclude.empty())
    refuse_adapters("lora.exclude_modules leaves out every module that lora.targets names",
                    "exclude fewer of them");
  refuse_adapters("lora.targets names no module that is not trained whole",
                  "leave them out of lora.modules_to_save");
}

void check_numbers(const Model& model, const AdapterRules& rules, const char* key,
                   const NumbersByPattern& numbers) {
  std::vector<std::string> modules = linear_modules(model.parameters);
  std::erase_if(modules, [&](const std::string& module) { return !rules.is_target(module); });
  for (const auto& [pattern, number] : numbers) {
    const auto first = [&, &text = pattern](const std::string& module) {
      const auto found = std::find_if(numbers.begin(), numbers.end(),
                                      [&](const auto& one) { return rules.is_of(one.first, module); });
      return found != numbers.end() && found->first == text;
    };
    if (!rules.settings().from_file && std::none_of(modules.begin(), modules.end(), first))
      refuse_adapters(
          fmt::format("lora.{}: '{}' is of no module that has an adapter and no pattern before it", key,
                      printable(pattern)),
          "a pattern is the end of a module's name from a dot on, such as c_attn or h.0.attn.c_attn, or a "
          "regular "
          "expression of that");
  }
}

void check_whole_modules(const Model& model, const AdapterRules& rules) {
  for (const std::string& name : rules.settings().modules_to_save) {
    std::set<std::string> leaves;
    bool found = false;
    for (const Parameter& p : model.parameters) {
      if (p.adapter) continue;
      for (const Parameter::FileTensor& tensor : p.file_tensors()) {
        const bool within = rules.saves(name, tensor.name);
        found |= within && !p.frozen;
        leaves.emplace(leaf_of_module(module_of(tensor.name)));
        if (within && p.frozen)
          refuse_adapters(
              fmt::format("lora.modules_to_save: '{}' is a part of {}, which is one parameter here",
                          printable(name), p.name),
              "name all of its modules, or none");
      }
    }
    if (!found && !rules.settings().from_file) refuse_module("modules_to_save", name, leaves);
    for (const auto& [second, tensor] : model.files.tied)
      if (rules.saves(name, tensor) || rules.saves(name, second))
        refuse_adapters(
            fmt::format("lora.modules_to_save: '{}' is {} and {}, which are one table in this model",
                        printable(name), tensor, second),
            "adapters are of one of them in PEFT's files: leave it frozen");
  }
}

// Also of tables and heads, which stay whole anyway.
void check_base(const Model& model, const AdapterRules& rules) {
  const BaseSettings& base = rules.settings().base;
  if (base.format == WeightFormat::kWhole) return;
  const std::vector<Parameter>& all = model.parameters;
  for (const std::string& entry : base.skip) {
    bool found = base.from_file;
    std::set<std::string> leaves;
    for (const Parameter& p : all)
      for (const Parameter::FileTensor& tensor : p.file_tensors()) {
        found |= !p.adapter && rules.skips(entry, module_of(tensor.name));
        if (p.linear) leaves.emplace(leaf_of_module(module_of(tensor.name)));
      }
    for (const auto& [second, first] : model.files.tied) found |= rules.skips(entry, module_of(second));
    if (!found) refuse_module("base_skip_modules", entry, leaves);
  }
  if (std::none_of(all.begin(), all.end(), [](const Parameter& p) { return p.is_stored(); }))
    refuse_adapters(fmt::format("lora.base {} has no effect: every linear module is trained whole, or "
                                "lora.base_skip_modules names it",
                                name_of(base.format)),
                    "name fewer of them, or leave lora.base out");
}

}  // namespace

void check_adapters(const Model& model, const LoraSettings& settings) {
  if (!settings.adapts()) return;
  const AdapterRules rules(settings, model.files);
  check_targets(model, rules);
  check_numbers(model, rules, "rank_pattern", settings.rank_pattern);
  check_numbers(model, rules, "alpha_pattern", settings.alpha_pattern);
  check_whole_modules(model, rules);
  check_base(model, rules);
}

}  // namespace recollect
