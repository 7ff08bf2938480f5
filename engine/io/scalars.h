// Reads and writes single values. Numbers are decimal and finite, and the whole text must be a number: 010,
// 0x10, 1_000, .nan, 12abc and 1e999 are refused, never reinterpreted. What `print_*` writes, `read_*` reads
// back as the same value.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/yaml_document.h"

namespace recollect {

// The values that a key accepts.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  bool byte_size = false;                        // written like "4GiB"
  bool required = false;                         // text: not empty
  std::span<const std::string_view> words = {};  // texts: each entry is one of these
  bool numbers = false;                          // texts: entries may be written as numbers

  std::string describe() const;  // "at least 1", "in [0, 1)", ...
};

// Each returns "" and sets `out`, or returns why the node has no such value and leaves `out` unchanged.
std::string read_value(const YamlNode& node, const ValueRange& range, bool& out);
std::string read_value(const YamlNode& node, const ValueRange& range, int64_t& out);
std::string read_value(const YamlNode& node, const ValueRange& range, double& out);
std::string read_value(const YamlNode& node, const ValueRange& range, std::string& out);
std::string read_value(const YamlNode& node, const ValueRange& range,
                       std::vector<std::string>& out);  // one text or a list
std::string read_choice(const YamlNode& node, std::span<const std::string_view> choices, std::size_t& out);

// Return the YAML text of a value.
std::string print_value(bool value, const ValueRange& range);
std::string print_value(int64_t value, const ValueRange& range);
std::string print_value(double value,
                        const ValueRange& range);  // the shortest text that reads back to the same bits
std::string print_value(const std::string& value, const ValueRange& range);
std::string print_value(const std::vector<std::string>& value, const ValueRange& range);
std::string print_text(std::string_view text);  // quoted if any YAML reader could take it for something else

}  // namespace recollect
