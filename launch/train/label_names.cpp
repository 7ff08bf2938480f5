#include "launch/train/label_names.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/data/labels.h"
#include "launch/config/saved_model.h"

namespace recollect {

namespace {

// The class names of the head; empty if the head is initialised at random, or has no names.
std::vector<std::string> names_of_head(const Config& config) {
  if (config.model.pretrained.empty()) return {};
  std::vector<std::string> names = saved_label_names(config.model.pretrained);
  if (static_cast<int64_t>(names.size()) != config.model.facts().labels) names.clear();
  return names;
}

bool is_among(const std::vector<std::string>& names, const std::string& label) {
  return std::find(names.begin(), names.end(), label) != names.end();
}

// Whether each label is a number from 0 to `classes` - 1.
bool are_classes(const std::vector<std::string>& labels, int64_t classes) {
  return !labels.empty() && std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    const auto number = label_number(label);
    return number && *number >= 0 && *number < classes;
  });
}

// The head's names as the data spells them; empty if a label of the data is not among them, ignoring case.
std::vector<std::string> spelled_by_data(const std::vector<std::string>& head,
                                         const std::vector<std::string>& found) {
  std::vector<std::string> names = head;
  for (const std::string& label : found) {
    const auto at = std::find_if(head.begin(), head.end(),
                                 [&](const std::string& name) { return same_letters(name, label); });
    if (at == head.end() || std::count_if(found.begin(), found.end(), [&](const std::string& other) {
                              return same_letters(other, label);
                            }) != 1)
      return {};
    names[static_cast<std::size_t>(at - head.begin())] = label;
  }
  return names;
}

}  // namespace

LabelNames choose_label_names(const Config& config, const std::vector<std::string>& found) {
  const int64_t classes = config.model.facts().labels;
  const std::vector<std::string> head = names_of_head(config);
  const bool numbers = are_classes(found, classes);
  if (!head.empty()) {
    if (std::all_of(found.begin(), found.end(),
                    [&](const std::string& label) { return is_among(head, label); }))
      return {head};
    if (std::vector<std::string> names = spelled_by_data(head, found); !names.empty())
      return {names,
              {fmt::format("labels {} are what the model of model.pretrained calls {}",
                           fmt::join(names, ", "), fmt::join(head, ", "))}};
    if (numbers)
      return {head,
              {fmt::format(
                  "labels are numbers: 0 to {} are {}, as the model of model.pretrained calls its classes",
                  classes - 1, fmt::join(head, ", "))}};
    if (static_cast<int64_t>(found.size()) == classes)
      return {{},
              {fmt::format(
                  "labels {} are classes 0 to {}, which the model of model.pretrained calls {}: data.labels "
                  "can say another order",
                  fmt::join(found, ", "), classes - 1, fmt::join(head, ", "))}};
    return {};
  }
  LabelNames chosen;
  if (numbers && static_cast<int64_t>(found.size()) < classes)
    for (int64_t i = 0; i < classes; ++i) chosen.names.push_back(fmt::to_string(i));
  const bool all_numbers =
      std::all_of(found.begin(), found.end(), [](const std::string& label) { return label_number(label); });
  if (all_numbers && !numbers && static_cast<int64_t>(found.size()) == classes)
    chosen.remarks.push_back(
        fmt::format("labels {} are classes 0 to {}, in this order", fmt::join(found, ", "), classes - 1));
  return chosen;
}

std::optional<std::string> reordered_labels(const Config& config) {
  const std::vector<std::string> head = names_of_head(config), &given = config.data.labels;
  if (head.empty() || given == head ||
      !std::is_permutation(given.begin(), given.end(), head.begin(), head.end()))
    return std::nullopt;
  return fmt::format(
      "data.labels orders the classes as {}, and the model of model.pretrained as {}: its head learns them "
      "anew",
      fmt::join(given, ", "), fmt::join(head, ", "));
}

}  // namespace recollect
