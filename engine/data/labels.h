// The names of classes: found in files, or given, and then looked up by name or by number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

// The class that a label names; a name goes before a number.
std::optional<int32_t> find_class(std::string_view label, std::span<const std::string> names);

// Error kInput at that line: the label names no class.
[[noreturn]] void fail_at_label(const std::string& path, int64_t line, std::string_view label,
                                std::span<const std::string> names);

}  // namespace recollect
