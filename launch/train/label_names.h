// Maps the labels of the data to classes. The class names in the head of model.pretrained decide. Without
// them, whole numbers are class indices, and texts are numbered in sorted order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

struct LabelNames {
  std::vector<std::string>
      names;  // by class, as the data spells them; empty: as found
  std::vector<std::string> remarks = {};  // if numbers or names are mapped to others
};

// `found` are the sorted labels of the data. Throws kInput if the head's config.json contradicts itself.
LabelNames choose_label_names(const Config& config, const std::vector<std::string>& found);

// A message if data.labels has the names of the head in another order.
std::optional<std::string> reordered_labels(const Config& config);

}  // namespace recollect
