#include "checkpointing/plan_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/io/file_text.h"
#include "engine/io/scalars.h"
#include "engine/io/spelling.h"
#include "engine/io/yaml_document.h"

namespace recollect {

namespace {

// Where a * stands for any text. Linear in the name for each *, whatever the pattern.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

class Reader {
 public:
  Reader(const Graph& graph, const SavedActivations& saved, int tensor_size, Problems& problems)
      : graph_(graph), tensor_size_(tensor_size), problems_(problems), saved_(saved.values()) {
    for (ValueId v : saved_) plan_.values[graph.value(v).name] = {};
    for (const auto& [name, decision] : plan_.values) names_.push_back(name);
  }

  // Values that a line would partition and that are sharded.
  int64_t divided_already() const { return static_cast<int64_t>(divided_.size()); }

  Plan read(const YamlNode& root) {
    bool values = false;
    if (expect_mapping(root, "'values' and 'replay'"))
      for (const auto& [key, node] : root.entries) {
        values |= key.text == "values";
        if (key.text == "values")
          read_values(node);
        else if (key.text == "replay")
          read_replay(node);
        else if (key.kind == YamlNode::Kind::kScalar)
          problems_.add(key.place, fmt::format("unknown key '{}'{}", key.text, meant(key.text, kKeys)));
      }
    if (root.kind == YamlNode::Kind::kMapping && !values) problems_.add(root.place, "'values' is missing");
    return std::move(plan_);
  }

 private:
  static constexpr std::array<std::string_view, 2> kKeys = {"replay", "values"};
  static constexpr std::array<std::string_view, 9> kWords = {
      "recompute",        "device",    "partitioned",          "host", "partitioned+host", "disk",
      "partitioned+disk", "host+disk", "partitioned+host+disk"};

  static std::string meant(std::string_view word, std::span<const std::string_view> candidates) {
    const std::string near = nearest(word, candidates);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  }

  bool expect_mapping(const YamlNode& node, const std::string& of) {
    if (node.kind == YamlNode::Kind::kMapping) return true;
    if (node.kind != YamlNode::Kind::kRefused)
      problems_.add(node.place, fmt::format("expected a mapping with {}, found {}", of, describe(node)));
    return false;
  }

  void read_replay(const YamlNode& node) {
    const std::array<std::string_view, 4> names = {name_of(Replay::kSegment), name_of(Replay::kBisect),
                                                   name_of(Replay::kNothing), name_of(Replay::kBinomial)};
    std::size_t index = 0;
    if (node.kind == YamlNode::Kind::kRefused) return;
    if (const std::string wrong = read_choice(node, names, index); !wrong.empty())
      problems_.add(node.place, "replay: " + wrong);
    plan_.replay = static_cast<Replay>(index);
  }

  void read_values(const YamlNode& node) {
    if (!expect_mapping(node, "a line for each value or pattern")) return;
    for (const auto& [pattern, word] : node.entries) {
      if (pattern.kind != YamlNode::Kind::kScalar || word.kind == YamlNode::Kind::kRefused) continue;
      const std::optional<Decision> decision = read_decision(pattern.text, word);
      const std::vector<ValueId> found = find(pattern.text);
      if (found.empty())
        problems_.add(pattern.place, fmt::format("'{}' matches no value that backward needs{}", pattern.text,
                                                 meant(pattern.text, names_)));
      else if (decision)
        apply(pattern, found, *decision);
    }
  }

  std::optional<Decision> read_decision(const std::string& pattern, const YamlNode& node) {
    std::size_t index = 0;
    if (const std::string wrong = read_choice(node, kWords, index); !wrong.empty()) {
      problems_.add(node.place, fmt::format("{}: {}", pattern, wrong));
      return std::nullopt;
    }
    const auto goes = [&](std::string_view where) {
      return kWords[index].find(where) != std::string_view::npos;
    };
    return Decision{
        .save = index != 0, .partition = goes("partitioned"), .host = goes("host"), .disk = goes("disk")};
  }

  std::vector<ValueId> find(std::string_view pattern) const {
    std::vector<ValueId> found;
    for (ValueId v : saved_)
      if (matches(pattern, graph_.value(v).name)) found.push_back(v);
    return found;
  }

  void apply(const YamlNode& pattern, const std::vector<ValueId>& found, const Decision& decision) {
    bool partitioned = false;
    for (ValueId v : found) {
      Decision mine = decision;
      mine.partition =
          decision.partition && tensor_size_ > 1 && !graph_.value(v).placement.is_sharded_over(kTensorAxis);
      partitioned |= mine.partition;
      divided_.erase(v);
      if (decision.partition && graph_.value(v).placement.is_sharded_over(kTensorAxis)) divided_.insert(v);
      plan_.values[graph_.value(v).name] = mine;
    }
    if (decision.partition && !partitioned)
      problems_.add(
          pattern.place,
          tensor_size_ == 1
              ? fmt::format("{}: nothing can be partitioned over one tensor rank", pattern.text)
              : fmt::format(
                    "{}: each tensor rank has its own part of it already; there is nothing to partition",
                    pattern.text));
  }

  const Graph& graph_;
  int tensor_size_;
  Problems& problems_;
  const std::vector<ValueId>& saved_;
  std::vector<std::string_view> names_;
  std::set<ValueId> divided_;
  Plan plan_;
};

}  // namespace

Plan read_plan(const std::string& path, const Graph& graph, const SavedActivations& saved, int tensor_size,
               int64_t* divided_already) {
  std::string text;
  if (const std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty()) {
    Problems problems;
    problems.add({path, 0, 0}, wrong);
    problems.raise();
  }
  return read_plan_text(path, text, graph, saved, tensor_size, divided_already);
}

Plan read_plan_text(const std::string& name, std::string_view text, const Graph& graph,
                    const SavedActivations& saved, int tensor_size, int64_t* divided_already) {
  Problems problems;
  const YamlNode root = parse_document(name, text, problems);
  Reader reader(graph, saved, tensor_size, problems);
  Plan plan = reader.read(root);
  problems.raise("a run writes its plan to plan.yaml in its output_dir: start from that");
  if (divided_already) *divided_already = reader.divided_already();
  return plan;
}

void check_plans_agree(const Plan& plan, const ResidencySettings& moves, Communicator& communicator,
                       bool keys_in_order) {
  std::map<std::string, std::string> texts{{"replay", std::string(name_of(plan.replay))},
                                           {"keep_last", fmt::format("{}", moves.keep_last)},
                                           {"prefetch", fmt::format("{}", moves.prefetch)},
                                           {"keys_in_order", fmt::format("{}", keys_in_order)}};
  for (const auto& [name, decision] : plan.values) texts["values." + name] = word_of(decision);
  check_texts_agree(texts, "checkpointing plans",
                    "start every rank with the same activation_checkpointing.plan", communicator);
}

}  // namespace recollect
