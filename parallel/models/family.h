// A model family as data: everything that is particular to it stands in one pair of files beside this one.
// The configuration reads, checks, prints and documents a family's keys without knowing any of them; the rest
// of the program asks for its facts.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/graph/op_def.h"
#include "engine/io/problems.h"
#include "parallel/layers.h"
#include "parallel/model.h"
#include "parallel/tasks/task.h"

namespace recollect {

// Bounds that no real model meets; they keep products of sizes inside 64 bits.
inline constexpr double kMostModelSize = 1 << 24;
inline constexpr double kMostModelLayers = 1024;  // a step is a list of all ops, planned in seconds

using ModelValue = std::variant<bool, int64_t, double, std::string>;

// A key of the section `model`, by the name that the family's config.json gives it: "a.b" is the key b of its
// object a, and of a section inside `model`.
struct ModelKey {
  // What a value other than the default can change.
  enum class Concerns { kModel, kFreshWeights, kTraining };

  std::string name;
  std::vector<std::string> aliases = {};
  ModelValue otherwise;  // its default; the key has its kind
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  std::vector<std::string_view> choices = {};  // of a text; views of literals
  Concerns concerns = Concerns::kModel;
  std::string help;
};

// The values of all keys of one family.
class ModelValues {
 public:
  ModelValues() = default;
  explicit ModelValues(const std::vector<ModelKey>& keys);  // their defaults

  bool flag(std::string_view key) const { return get<bool>(key); }
  int64_t integer(std::string_view key) const { return get<int64_t>(key); }
  double real(std::string_view key) const { return get<double>(key); }
  const std::string& text(std::string_view key) const { return get<std::string>(key); }
  bool has(std::string_view key) const { return values_.contains(key); }
  // Error kInternal where the family has no such key.
  const ModelValue& at(std::string_view key) const;
  ModelValue& at(std::string_view key) { return const_cast<ModelValue&>(std::as_const(*this).at(key)); }
  // The value must be of the key's kind.
  void set(std::string_view key, ModelValue value);

 private:
  template <typename T>
  const T& get(std::string_view key) const;

  std::map<std::string, ModelValue, std::less<>> values_;
};

// What others ask of a model, by the key that says it.
struct ModelFact {
  std::string key;
  int64_t value = 0;
};
struct ModelFacts {
  ModelFact vocabulary;     // token ids are below it
  ModelFact longest;        // sequence
  bool any_length = false;  // longest bounds sequences by the value of its key alone: no position is learnt
  int64_t kept_positions = 0;  // of those that the key of longest counts: no token of a sequence has them
  ModelFact layers;
  std::vector<ModelFact> divided;  // what tensor ranks share: their number must divide each of them
  std::vector<ModelFact> divided_or_repeated = {};  // or be a multiple of it
  int64_t token_types = 0;                          // 0: the model has none
  int64_t padding_id = 0;                           // what a sequence is filled with
  int64_t labels = 0;                               // of its classifications
  ProblemType problem = ProblemType::kSingleLabel;  // of its classifications of sequences
  bool tanh_gelu = false;                           // its MLPs have GELU in the tanh form
  bool shares_head_weights = false;  // all tensor ranks hold these weights, and each a part of their gradient
  // Generation: if a sequence grows beyond this length, its cached keys are not valid any more. 0: they always are.
  int64_t cache_ends = 0;
};

// What completes an open value: the key, and how it came about.
struct CompletedValue {
  std::string key, from;
};

// Sizes in the words of no family.
struct ModelSketch {
  int64_t vocabulary, longest, width, layers, heads;
  double dropout;
};

// Keys that config.json has in an object of its own: "model.NAME", and one sentence.
struct ModelSection {
  std::string_view path, help;  // literals
};

// Keys that some values of another leave without effect.
struct UnusedModelKeys {
  std::vector<std::string> keys;
  std::string because;
  std::function<bool(const ModelValues&)> unused;
  std::string why;
};

struct ModelFamily {
  std::string_view type;             // model.type, and model_type in config.json; a literal
  std::string_view whole = {};       // model_type of models of text and images whose text_config it is
  std::vector<Task> tasks;           // that it has a head for; the first is the default
  std::vector<std::string> adapted;  // modules that get adapters where nobody says which, as in PEFT
  std::vector<ModelKey> keys;
  std::vector<ModelSection> sections = {};
  std::vector<UnusedModelKeys> unused = {};
  // Keys of config.json that would change the mathematics, and the one value that this program computes.
  std::vector<std::pair<std::string, ModelValue>> fixed = {};

  // Keys of config.json that change nothing here, and something where Transformers loads what is saved.
  std::vector<std::string_view> kept = {};

  // Says in the words of the keys what a config.json says in others.
  std::function<void(nlohmann::json&)> translate = [](nlohmann::json&) {};
  std::function<ModelFacts(const ModelValues&)> facts;
  std::function<std::vector<CompletedValue>(ModelValues&)> complete;
  // Contradictions; keys are named as "model.KEY".
  std::function<std::vector<Finding>(const ModelValues&)> check;
  // A config.json that Transformers loads, for weights of that dtype ("float32", "bfloat16", ...).
  std::function<std::string(const ModelValues&, Task, std::string_view dtype)> config_json;
  // The values of a model of such sizes.
  std::function<ModelValues(const ModelFamily&, const ModelSketch&)> sketch;
  // Appends the forward graph. The values are complete and without contradiction; the task is one of `tasks`.
  std::function<Model(Graph&, const OpRegistry&, const ModelValues&, const TaskSettings&, const BatchShape&,
                      ParallelLayout, DType)>
      build;
};

}  // namespace recollect
