// Which layers attend to a window of tokens, from the key layer_types of a config.json. Its list is a text here, names
// separated by commas; "" leaves it to the family.
#pragma once

#include "parallel/models/keys.h"

namespace recollect {

ModelKey layer_types_key(const char* otherwise);
// Turns the list into a text; null becomes "".
void translate_layer_types(nlohmann::json& document);
void check_layer_types(const ModelValues& m, std::vector<Finding>& found);
// Whether the list gives the layer a window; `otherwise` if there is no list. Layers beyond the list have none.
bool attends_to_window(const ModelValues& m, int64_t layer, bool otherwise);
// The list, or null.
nlohmann::ordered_json layer_types_json(const ModelValues& m);

}  // namespace recollect
