// The strict subset of YAML that a configuration may use, as a small tree with positions: one document of
// mappings, sequences and scalars. Anchors, aliases, tags, duplicate keys, deep nesting and large files are
// refused while parsing, so that no text costs more than one reading.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/problems.h"

namespace recollect {

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 20;
inline constexpr int kMaxDocumentDepth = 32;

// One node of the tree. `kRefused` stands for something that has been reported already; readers skip it.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping, kRefused };

  Kind kind = Kind::kNull;
  Place place;        // 1-based
  std::string text;   // scalar
  bool plain = true;  // scalar: written without quotes
  std::vector<YamlNode> items;
  struct Entry;
  std::vector<Entry> entries;
};

struct YamlNode::Entry {
  YamlNode key, value;
};

// "a list", "'12x'", "nothing", ... for "expected ..., found ..." messages.
std::string describe(const YamlNode& node);

// Returns the document's tree. `name` is the file's name in positions. Errors are added to `problems`; after
// a syntax error the result is a refused node.
YamlNode parse_document(const std::string& name, std::string_view text, Problems& problems);

// Returns the byte offset of the first byte that is not UTF-8 text (NUL and other control characters
// included), or npos.
std::size_t find_invalid_text(std::string_view text);

}  // namespace recollect
