// Which class a label of the data is. What the head of model.pretrained calls its classes decides; otherwise whole numbers
// are the classes that they name, and texts come in their order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

struct LabelNames {
  std::vector<std::string>
      names;  // in the order of the classes, as the data spells them; none: as they were found
  std::vector<std::string> remarks = {};  // where numbers or names stand for others
};

// `found`: sorted, as the data has them. Error kInput where the head's config.json contradicts itself.
LabelNames choose_label_names(const Config& config, const std::vector<std::string>& found);

// Of names that data.labels gives: where the head has the same in another order.
std::optional<std::string> reordered_labels(const Config& config);

}  // namespace recollect
