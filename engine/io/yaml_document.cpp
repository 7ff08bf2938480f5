#include "engine/io/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <sstream>
#include <unordered_map>

#include "engine/core/printable.h"

namespace recollect {
namespace {

// Ends the parsing. The reason has already been added to the problems.
struct Refusal {};

// Builds the tree from the parser's events. yaml-cpp's own tree is not used, because it silently keeps the
// first of two duplicate keys and follows aliases.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& name, Problems& problems) : name_(name), problems_(problems) {}

  YamlNode take() { return std::move(root_); }
  bool has_root() const { return has_root_; }
  Place place_of(const YAML::Mark& mark) const {
    return {fmt::format("{}:{}:{}", name_, mark.line + 1, mark.column + 1), mark.line + 1, mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    problems_.add(place_of(mark), "a second document; a configuration is one document");
    throw Refusal{};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (check(mark, "", anchor)) add(make(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.add(place_of(mark), "aliases (*name) are not supported; write the value again");
    add(make(YamlNode::Kind::kRefused, mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!check(mark, tag, anchor)) return;
    YamlNode node = make(YamlNode::Kind::kScalar, mark);
    node.text = value;
    node.plain = tag != "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMapping, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
    bool duplicate = false;
    std::unordered_map<std::string, int> lines;  // key -> line where it was first given
  };

  YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode node;
    node.kind = kind;
    node.place = place_of(mark);
    return node;
  }

  bool report_decoration(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const bool tagged = !tag.empty() && tag != "?" && tag != "!";
    if (tagged) problems_.add(place_of(mark), "tags (!name) are not supported");
    if (anchor != 0)
      problems_.add(place_of(mark), "anchors (&name) are not supported; write the value again");
    return tagged || anchor != 0;
  }

  bool check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (!report_decoration(mark, tag, anchor)) return true;
    add(make(YamlNode::Kind::kRefused, mark));
    return false;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    // An anchored or tagged mapping is still read, so that the problems inside it are found in the same pass.
    report_decoration(mark, tag, anchor);
    if (open_.size() >= kMaxDocumentDepth) {
      problems_.add(place_of(mark), fmt::format("nested more than {} deep", kMaxDocumentDepth));
      throw Refusal{};
    }
    open_.push_back({make(kind, mark), {}, false, false, {}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      has_root_ = true;
    } else if (open_.back().node.kind == YamlNode::Kind::kSequence) {
      open_.back().node.items.push_back(std::move(node));
    } else if (!open_.back().has_key) {
      begin_entry(open_.back(), std::move(node));
    } else {
      Open& mapping = open_.back();
      mapping.has_key = false;
      if (mapping.duplicate) return;
      mapping.node.entries.push_back({std::move(mapping.key), std::move(node)});
    }
  }

  void begin_entry(Open& mapping, YamlNode key) {
    mapping.has_key = true;
    mapping.duplicate = false;
    if (key.kind == YamlNode::Kind::kScalar) {
      const auto [first, inserted] = mapping.lines.emplace(key.text, key.place.line);
      mapping.duplicate = !inserted;
      if (!inserted) {
        problems_.add(key.place,
                      fmt::format("duplicate key '{}', first given on line {}", key.text, first->second));
      }
    } else if (key.kind != YamlNode::Kind::kRefused) {
      problems_.add(key.place, fmt::format("a key must be a word, found {}", describe(key)));
      key.kind = YamlNode::Kind::kRefused;
    }
    mapping.key = std::move(key);
  }

  const std::string& name_;
  Problems& problems_;
  std::vector<Open> open_;
  YamlNode root_;
  bool has_root_ = false;
  int documents_ = 0;
};

// Converts a byte offset to a place.
Place locate(const std::string& name, std::string_view text, std::size_t offset) {
  int line = 1;
  int column = 1;
  for (const char c : text.substr(0, offset)) {
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n';
  }
  return {fmt::format("{}:{}:{}", name, line, column), line, column};
}

bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0 && !text.empty(); --line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::size_t indent = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(0, indent).find('\t') != std::string_view::npos;
}

}  // namespace

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
    case YamlNode::Kind::kScalar: {
      if (node.text.size() > 60) return fmt::format("{} characters of text", node.text.size());
      return fmt::format(fmt::runtime(node.plain ? "'{}'" : "the text \"{}\""), printable(node.text));
    }
    case YamlNode::Kind::kNull:
    case YamlNode::Kind::kRefused:
      break;
  }
  return "nothing";
}

std::size_t find_invalid_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) return i;
    i += length;
  }
  return std::string_view::npos;
}

YamlNode parse_document(const std::string& name, std::string_view text, Problems& problems) {
  YamlNode refused;
  refused.kind = YamlNode::Kind::kRefused;
  refused.place = {name, 0, 0};
  if (text.size() > kMaxDocumentBytes) {
    problems.add(refused.place, fmt::format("larger than {} bytes", kMaxDocumentBytes));
    return refused;
  }
  if (const std::size_t bad = find_invalid_text(text); bad != std::string_view::npos) {
    problems.add(locate(name, text, bad),
                 fmt::format("byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[bad])));
    return refused;
  }
  TreeBuilder builder(name, problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal&) {
    return refused;
  } catch (const YAML::Exception& error) {
    const bool tab = !error.mark.is_null() && is_indented_by_tab(text, error.mark.line);
    problems.add(error.mark.is_null() ? refused.place : builder.place_of(error.mark),
                 tab ? error.msg + "; indent with spaces, not tabs" : error.msg);
    return refused;
  }
  if (!builder.has_root()) {
    problems.add({name + ":1:1", 1, 1}, "empty; a configuration is a mapping of sections");
    return refused;
  }
  return builder.take();
}

}  // namespace recollect
