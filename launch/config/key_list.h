// What keys.h makes its table of: the keys themselves, and the sections they stand in.
#pragma once

#include <string_view>
#include <vector>

#include "launch/config/keys.h"

namespace recollect {

// Of the configuration of a model of that family; those of a section follow each other in the table's order. The
// aliases are those of the family.
std::vector<ConfigKey> list_keys(const ModelFamily& family);
// Adds those of what surrounds training.
void list_run_keys(std::vector<ConfigKey>& keys);
// "outer.inner" for a section in a section; views of literals.
std::vector<std::string_view> list_sections(const ModelFamily& family);
// One sentence.
std::string_view help_of_section(std::string_view section);

}  // namespace recollect
