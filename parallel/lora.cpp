#include "parallel/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/spelling.h"
#include "parallel/model.h"

namespace recollect {

namespace {

constexpr std::size_t kModulesShown = 12;

// Without layers' numbers and what stands before them.
std::string_view leaf_of_module(std::string_view module) { return module.substr(module.rfind('.') + 1); }

// "cls" of "cls.predictions.bias", and "cls.predictions": modules that hold a tensor.
std::vector<std::string_view> modules_around(std::string_view tensor) {
  std::vector<std::string_view> around;
  for (std::size_t dot = tensor.find('.'); dot != tensor.npos; dot = tensor.find('.', dot + 1))
    around.push_back(tensor.substr(0, dot));
  return around;
}

bool is_within(std::string_view tensor, std::string_view module) {
  const std::vector<std::string_view> around = modules_around(tensor);
  return std::any_of(around.begin(), around.end(),
                     [&](std::string_view outer) { return names_module(module, outer); });
}

[[noreturn]] void refuse_module(const std::string& key, const std::string& name,
                                const std::set<std::string>& leaves) {
  const std::vector<std::string_view> candidates(leaves.begin(), leaves.end());
  const std::string near = nearest(leaf_of_module(name), candidates);
  const std::size_t shown = std::min(candidates.size(), kModulesShown);
  throw Error(ExitCode::kConfiguration,
              fmt::format("lora.{}: the model has no module '{}'{}", key, printable(name),
                          near.empty() ? "" : fmt::format("; did you mean '{}'?", near)),
              fmt::format("it has {}{}", fmt::join(candidates.begin(), candidates.begin() + shown, ", "),
                          shown < candidates.size() ? " and others" : ""));
}

void check_targets(const Model& model, const LoraSettings& settings) {
  std::set<std::string> leaves;
  const std::vector<std::string> modules = linear_modules(model.parameters);
  for (const std::string& module : modules) leaves.emplace(leaf_of_module(module));
  for (const std::string& target : settings.targets) {
    const bool found = target == kAllLinear ||
                       std::any_of(modules.begin(), modules.end(),
                                   [&](const std::string& module) { return names_module(target, module); });
    if (!found) refuse_module("targets", target, leaves);
  }
  if (!has_adapters(model.parameters))
    throw Error(ExitCode::kConfiguration, "lora.targets names no module that is not trained whole",
                "leave them out of lora.modules_to_save");
}

void check_whole_modules(const Model& model, const LoraSettings& settings) {
  for (const std::string& name : settings.modules_to_save) {
    std::set<std::string> leaves;
    bool found = false;
    for (const Parameter& p : model.parameters) {
      if (p.adapter) continue;
      for (const Parameter::FileTensor& tensor : p.file_tensors()) {
        const bool within = is_within(tensor.name, name);
        found |= within && !p.frozen;
        leaves.emplace(leaf_of_module(module_of(tensor.name)));
        if (within && p.frozen)
          throw Error(ExitCode::kConfiguration,
                      fmt::format("lora.modules_to_save: '{}' is a part of {}, which is one parameter here",
                                  printable(name), p.name),
                      "name all of its modules, or none");
      }
    }
    if (!found) refuse_module("modules_to_save", name, leaves);
    for (const auto& [second, tensor] : model.files.tied)
      if (is_within(tensor, name) || is_within(second, name))
        throw Error(ExitCode::kConfiguration,
                    fmt::format("lora.modules_to_save: '{}' is {} and {}, which are one table in this model",
                                printable(name), tensor, second),
                    "adapters are of one of them in PEFT's files: leave it frozen");
  }
}

}  // namespace

double LoraSettings::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

bool LoraSettings::is_target(std::string_view module) const {
  const std::string weight = std::string(module) + ".weight";
  if (std::any_of(modules_to_save.begin(), modules_to_save.end(),
                  [&](const std::string& saved) { return is_within(weight, saved); }))
    return false;
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return target == kAllLinear || names_module(target, module);
  });
}

bool LoraSettings::trains_whole(const Parameter& parameter) const {
  const std::vector<Parameter::FileTensor> tensors = parameter.file_tensors();
  return std::all_of(tensors.begin(), tensors.end(), [&](const Parameter::FileTensor& tensor) {
    return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                       [&](const std::string& module) { return is_within(tensor.name, module); });
  });
}

bool names_module(std::string_view name, std::string_view module) {
  const auto ends_with_dot_and = [](std::string_view text, std::string_view end) {
    return text.size() > end.size() && text.ends_with(end) && text[text.size() - end.size() - 1] == '.';
  };
  if (name.empty()) return false;
  if (name == module || ends_with_dot_and(module, name)) return true;
  return ends_with_dot_and(name, module) && name.find('.') + 1 == name.size() - module.size();
}

std::string_view module_of(std::string_view tensor) { return tensor.substr(0, tensor.rfind('.')); }

std::vector<std::string> modules_of(const Parameter& weight) {
  std::vector<std::string> modules;
  for (const Parameter::FileTensor& tensor : weight.file_tensors())
    modules.emplace_back(module_of(tensor.name));
  return modules;
}

std::vector<std::string> linear_modules(std::span<const Parameter> parameters) {
  std::vector<std::string> all;
  for (const Parameter& p : parameters)
    if (p.linear)
      for (std::string& module : modules_of(p)) all.push_back(std::move(module));
  return all;
}

bool has_adapters(std::span<const Parameter> parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.adapter; });
}

std::string adapter_tensor_name(const FileNames& files, const std::string& tensor) {
  return "base_model.model." + files.in_file(tensor);
}

void check_adapters(const Model& model, const LoraSettings& settings) {
  if (!settings.adapts()) return;
  check_targets(model, settings);
  check_whole_modules(model, settings);
}

}  // namespace recollect
