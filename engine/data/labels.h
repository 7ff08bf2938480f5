// The names of classes: found in files, or given, and then looked up by name or by number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// A whole number as it is usually written: 0, 17, -1, and not 007 or 1.0.
std::optional<int64_t> label_number(std::string_view label);

// Whole numbers by their size, LABEL_0, LABEL_1 and so on by their numbers, all else as texts.
void sort_labels(std::vector<std::string>& labels);

// The same but for the case of ASCII letters.
bool same_letters(std::string_view a, std::string_view b);

// The class that a label names; a name goes before a number, which may be written as 1.0. Where all names are numbers, a
// number is a name. Of two classes false is the first and true the second, where neither is the name of one.
std::optional<int32_t> find_class(std::string_view label, std::span<const std::string> names);

// Error kInput at that line: the label names no class.
[[noreturn]] void fail_at_label(const std::string& path, int64_t line, std::string_view label,
                                std::span<const std::string> names);

}  // namespace recollect
