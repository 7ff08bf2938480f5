#include "parallel/lora.h"

#include <algorithm>
#include <cmath>

namespace recollect {

namespace {

// "cls" of "cls.predictions.bias", and "cls.predictions": modules that hold a tensor.
std::vector<std::string_view> modules_around(std::string_view tensor) {
  std::vector<std::string_view> around;
  for (std::size_t dot = tensor.find('.'); dot != tensor.npos; dot = tensor.find('.', dot + 1))
    around.push_back(tensor.substr(0, dot));
  return around;
}

// A module's whole name, or its end from a dot on.
bool is_end_of(std::string_view name, std::string_view whole) {
  if (name.empty() || !whole.ends_with(name)) return false;
  return name.size() == whole.size() || whole[whole.size() - name.size() - 1] == '.';
}

constexpr const char* kAnyLayers = "[^.]*";

}  // namespace

AdapterRules::AdapterRules(LoraSettings settings, const FileNames& files)
    : settings_(std::move(settings)), files_(files) {
  if (!settings_.adapts()) return;
  const auto add = [&](const char* key, const std::string& text) {
    patterns_.emplace_back(text, ModulePattern(key, text));
  };
  for (const auto& [key, list] :
       {std::pair("lora.targets", &settings_.targets), std::pair("lora.exclude_modules", &settings_.exclude)})
    for (const std::string& entry : *list)
      if (is_pattern(entry)) add(key, entry);
  for (const auto& [key, numbers] : {std::pair("lora.rank_pattern", &settings_.rank_pattern),
                                     std::pair("lora.alpha_pattern", &settings_.alpha_pattern)})
    for (const auto& [text, number] : *numbers) add(key, text);
  if (!settings_.layers.empty() && settings_.layers_pattern.empty()) settings_.layers_pattern = {kAnyLayers};
  for (const std::string& entry : settings_.layers_pattern) add("lora.layers_pattern", entry);
}

bool AdapterRules::is_target(std::string_view module) const {
  const std::string weight = std::string(module) + ".weight";
  const std::string whole = whole_name(module);
  const auto names_it = [&](const std::string& entry) { return names(entry, module); };
  // One that an entry names whole is a target in every layer.
  const bool passes = passes_layers(module);
  const auto targets_it = [&](const std::string& entry) {
    return names(entry, module) && (passes || entry == whole);
  };
  const std::vector<std::string>& saved = settings_.modules_to_save;
  return std::none_of(saved.begin(), saved.end(),
                      [&](const std::string& entry) { return saves(entry, weight); }) &&
         std::none_of(settings_.exclude.begin(), settings_.exclude.end(), names_it) &&
         std::any_of(settings_.targets.begin(), settings_.targets.end(), targets_it);
}

bool AdapterRules::passes_layers(std::string_view module) const {
  if (settings_.layers.empty()) return true;
  const std::string name = whole_name(module);
  for (const std::string& entry : settings_.layers_pattern)
    if (const std::optional<long> layer = pattern(entry).layer_of(name))
      return std::find(settings_.layers.begin(), settings_.layers.end(), *layer) != settings_.layers.end();
  return false;
}

int64_t AdapterRules::rank_of(std::string_view module) const {
  return static_cast<int64_t>(number_of(settings_.rank_pattern, module, static_cast<double>(settings_.rank)));
}

double AdapterRules::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return number_of(settings_.alpha_pattern, module, settings_.alpha) /
         (settings_.rank_stabilized ? std::sqrt(r) : r);
}

double AdapterRules::number_of(const NumbersByPattern& numbers, std::string_view module,
                               double otherwise) const {
  for (const auto& [text, number] : numbers)
    if (is_of(text, module)) return number;
  return otherwise;
}

bool AdapterRules::trains_whole(const Parameter& parameter) const {
  const std::vector<Parameter::FileTensor> tensors = parameter.file_tensors();
  return std::all_of(tensors.begin(), tensors.end(), [&](const Parameter::FileTensor& tensor) {
    return std::any_of(settings_.modules_to_save.begin(), settings_.modules_to_save.end(),
                       [&](const std::string& entry) { return saves(entry, tensor.name); });
  });
}

bool AdapterRules::names(const std::string& entry, std::string_view module) const {
  if (entry == kAllLinear) return true;
  return is_pattern(entry) ? pattern(entry).matches_whole(whole_name(module))
                           : is_end_of(entry, whole_name(module));
}

// PEFT asks for no dot before the end: "fier" is the classifier.
bool AdapterRules::saves(const std::string& entry, std::string_view tensor) const {
  const std::string whole = files_.in_file(std::string(tensor));
  const std::vector<std::string_view> around = modules_around(whole);
  return !entry.empty() && std::any_of(around.begin(), around.end(),
                                       [&](std::string_view module) { return module.ends_with(entry); });
}

bool AdapterRules::leaves_whole(std::string_view module) const {
  const std::vector<std::string>& skip = settings_.base.skip;
  return std::any_of(skip.begin(), skip.end(),
                     [&](const std::string& entry) { return skips(entry, module); });
}

bool AdapterRules::skips(const std::string& entry, std::string_view module) const {
  const std::string whole = whole_name(module);
  const bool begins =
      whole.starts_with(entry) && (whole.size() == entry.size() || whole[entry.size()] == '.');
  return !entry.empty() && (begins || whole.ends_with(entry));
}

bool AdapterRules::is_of(const std::string& text, std::string_view module) const {
  return pattern(text).matches_end(whole_name(module));
}

std::string AdapterRules::whole_name(std::string_view module) const {
  return std::string(module_of(files_.in_file(std::string(module) + ".weight")));
}

const ModulePattern& AdapterRules::pattern(const std::string& text) const {
  return std::find_if(patterns_.begin(), patterns_.end(),
                      [&](const auto& known) { return known.first == text; })
      ->second;
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

}  // namespace recollect
