#include "parallel/optimizers/groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/printable.h"

namespace recollect {

namespace {

constexpr std::size_t kNamesShown = 4;

// The layer in which a parameter is read first, from 1 on. Before the layers it is 0, behind them one more than there
// are.
class Depths {
 public:
  explicit Depths(const Graph& graph) {
    std::vector<ValueId> behind;
    for (const Op& op : graph.ops()) {
      layers_ = std::max(layers_, op.layer + 1);
      for (const ValueId v : op.inputs) {
        if (v == kNone) continue;
        const bool is_new = depths_.emplace(v, op.layer >= 0 ? op.layer + 1 : 0).second;
        if (is_new && op.layer < 0 && layers_ > 0) behind.push_back(v);
      }
    }
    for (const ValueId v : behind) depths_[v] = layers_ + 1;
  }

  // Layers between the one that reads it and the end of the model.
  int below_the_end(ValueId parameter) const {
    const auto found = depths_.find(parameter);
    return layers_ + 1 - (found == depths_.end() ? 0 : found->second);
  }

 private:
  std::map<ValueId, int> depths_;
  int layers_ = 0;
};

[[noreturn]] void refuse(const ParameterGroup& group, const std::string& why, const std::string& hint) {
  throw Error(ExitCode::kConfiguration,
              fmt::format("{}optimizer.groups: [{}] {}", group.where.empty() ? "" : group.where + ": ",
                          printable(fmt::format("{}", fmt::join(group.match, ", "))), why),
              hint);
}

bool any_matches(const ParameterGroup& group, std::string_view name) {
  return std::any_of(group.match.begin(), group.match.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

// A parameter may be several tensors in files, which are all in the group or none is.
bool is_in(const ParameterGroup& group, const Parameter& p, const FileNames& files) {
  if (any_matches(group, p.name)) return true;
  std::vector<std::string> in, out;
  for (const Parameter::FileTensor& tensor : p.file_tensors()) {
    const bool has = any_matches(group, tensor.name) || any_matches(group, files.in_file(tensor.name));
    (has ? in : out).push_back(tensor.name);
  }
  if (!in.empty() && !out.empty())
    refuse(group, fmt::format("matches {} and not {}, which are one parameter here", in.front(), out.front()),
           "match all of them or none");
  return !in.empty();
}

bool finds(const std::string& pattern, const Parameter& p, const FileNames& files) {
  const auto tensors = p.file_tensors();
  return matches(pattern, p.name) || std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
           return matches(pattern, tensor.name) || matches(pattern, files.in_file(tensor.name));
         });
}

std::string some_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters)
    if (!p.frozen && names.size() < kNamesShown) names.push_back(p.file_tensors().front().name);
  const auto trained = static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return !p.frozen; }));
  const std::size_t more = trained - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

void assign(const ParameterGroup& group, Parameter& p) {
  p.frozen = group.frozen;
  if (group.rate_scale) p.rate_scale = *group.rate_scale;
  p.weight_decay = group.weight_decay;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos,
              from = 0;  // the last star, and what it stands for begins and ends
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == name[n] && pattern[p] != '*'))) {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = n;
    } else if (star != pattern.npos) {
      p = star + 1, n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

void assign_groups(const Graph& graph, Model& model, const OptimizerSettings& settings) {
  std::vector<char> taken(model.parameters.size(), 0), is_fixed;
  for (const Parameter& p : model.parameters) is_fixed.push_back(p.frozen);
  for (const ParameterGroup& group : settings.groups) {
    int64_t found = 0, fresh = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (is_fixed[i] || !is_in(group, model.parameters[i], model.files)) continue;
      ++found;
      if (std::exchange(taken[i], 1)) continue;
      ++fresh;
      assign(group, model.parameters[i]);
    }
    const std::string names =
        fmt::format("the model's are {}; * stands for any characters", some_names(model.parameters));
    if (found == 0) refuse(group, "matches no parameter", names);
    for (const std::string& pattern : group.match) {
      const auto found_by_it = [&](const Parameter& p) { return finds(pattern, p, model.files); };
      if (std::none_of(model.parameters.begin(), model.parameters.end(), found_by_it))
        refuse(group, fmt::format("'{}' in it matches no parameter", printable(pattern)), names);
    }
    if (fresh == 0)
      refuse(group, "matches only what is in groups before it", "a parameter is in the first that matches");
  }
  if (std::all_of(model.parameters.begin(), model.parameters.end(),
                  [](const Parameter& p) { return p.frozen; }) &&
      !settings.groups.empty())
    refuse(settings.groups.back(), "and the groups before it freeze every parameter",
           "leave some to be trained");
  if (settings.layer_decay == 1) return;
  const Depths depths(graph);
  for (Parameter& p : model.parameters)
    p.rate_scale *= std::pow(settings.layer_decay, depths.below_the_end(p.value));
}

}  // namespace recollect
