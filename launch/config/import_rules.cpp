#include "launch/config/import_rules.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "launch/config/config.h"
#include "parallel/optimizers/rules.h"

namespace recollect {

namespace {

// What the setting is here where nobody gives it.
double default_here(std::string_view rule, std::string_view setting) {
  for (const OptimizerEntry::Default& one : optimizer_entry(rule).defaults)
    if (one.setting == setting) return one.value;
  const Config::Optimizer otherwise;
  return setting == "beta1" ? otherwise.beta1 : setting == "beta2" ? otherwise.beta2 : otherwise.epsilon;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower;
  std::transform(text.begin(), text.end(), std::back_inserter(lower),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_same_value(const std::string& value, std::string_view other) {
  const auto a = number_of(value), b = number_of(std::string(other));
  return a && b ? *a == *b : value == other;
}

void write_optimizer(ForeignFile& file, const ForeignOptimizer& rule, std::string_view key,
                     const OptimizerArguments& a) {
  if (rule.ours.empty()) {
    file.leave_out(key, std::string(rule.note));
    for (const std::string_view argument : {a.beta1, a.beta2, a.epsilon}) file.settle(argument);
    return;
  }
  if (!rule.note.empty() && file.has(key)) file.note(file.find(key)->shown(), std::string(rule.note));
  if (file.has(key))
    file.write(key, "optimizer.name", std::string(rule.ours));
  else
    file.write_default("optimizer.name", std::string(rule.ours));
  std::istringstream also{std::string(rule.also)};
  for (std::string one; std::getline(also, one, ';');)
    file.write_default(one.substr(0, one.find('=')), one.substr(one.find('=') + 1), "");
  const auto take = [&](bool takes, std::string_view argument, std::string_view there, const char* setting) {
    const std::string ours = fmt::format("optimizer.{}", setting);
    if (!takes)
      file.leave_out(argument, fmt::format("{} does not read it there, either", rule.name));
    else if (file.has(argument))
      file.write(argument, ours, file.value(argument));
    else if (default_here(rule.ours, setting) != number_of(std::string(there)))
      file.write_default(ours, std::string(there));
  };
  take(rule.betas, a.beta1, a.beta1_default, "beta1");
  take(rule.betas, a.beta2, a.beta2_default, "beta2");
  take(rule.epsilon, a.epsilon, a.epsilon_default, "epsilon");
}

}  // namespace recollect
