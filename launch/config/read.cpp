#include "launch/config/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <type_traits>

#include "checkpointing/device_file.h"
#include "engine/core/printable.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/file_text.h"
#include "engine/io/hub_folder.h"
#include "engine/io/yaml_document.h"
#include "launch/config/check_reports.h"
#include "launch/config/data_source.h"
#include "launch/config/foreign_answers.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/hf_config.h"
#include "launch/config/inert.h"
#include "launch/config/keys.h"
#include "launch/config/lora_keys.h"
#include "launch/config/machine_memory.h"
#include "launch/config/occasions.h"
#include "launch/config/overrides.h"
#include "launch/config/padding.h"

namespace recollect {
namespace {

constexpr std::string_view kCommandLine = "command line";  // begins the place of its words

// What a key of the section `model` is given as, by the command line or else by the document; "" where
// neither says it in one word. Whatever is wrong is found later.
std::string given_of_model(const std::string& name, const YamlNode& root,
                           const std::vector<Override>& words) {
  const KeyTable& any_family = KeyTable::of(model_families().front());
  const auto is_it = [&](const std::string& given) {
    const ConfigKey* key = any_family.find("model", given);
    return key && key->name == name;
  };
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    if (word->key.starts_with("model.") && is_it(word->key.substr(6))) return word->value;
  for (const auto& [section, body] : root.entries)
    for (const auto& [key, value] : body.entries)
      if (section.text == "model" && is_it(key.text)) return value.text;
  return "";
}

// The family whose keys a configuration has: by model.type, else by the model's config.json.
const ModelFamily& family_of(const YamlNode& root, const std::vector<std::string>& overrides) {
  Problems unsaid;
  const std::vector<Override> words = split_overrides(overrides, unsaid);
  std::string type = given_of_model("type", root, words);
  if (type.empty()) {
    const std::string file = given_of_model("config", root, words),
                      folder = given_of_model("pretrained", root, words);
    if (!file.empty() || !folder.empty()) type = model_type_of(hf_config_path(file, folder));
  }
  const ModelFamily* family = find_model_family(type);
  return family ? *family : model_families().front();
}

class Reader {
 public:
  Reader(const std::string& name, const ModelFamily& family, Problems& problems)
      : problems_(problems), table_(KeyTable::of(family)), config_(table_.defaults()) {
    config_.origins[""] = {name, 0, 0};
  }

  void read_document(const YamlNode& root) { read_entries("", root); }

  // The command line wins over the file, so it is read second; of the words for one key the last wins.
  void read_overrides(const std::vector<std::string>& words) {
    const std::vector<Override> entries = split_overrides(words, problems_);
    std::vector<const ConfigKey*> keys;
    std::map<const ConfigKey*, const Override*> last;
    for (const Override& entry : entries) {
      keys.push_back(find_override(entry, table_, problems_));
      last[keys.back()] = &entry;
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Override& entry = entries[i];
      const ConfigKey* key = keys[i];
      if (!key || last.at(key) != &entry) continue;
      broken_.erase(key->path());
      if (!given_.contains(key->path())) spoken_.insert(key->path());
      assign(*key, entry.key.substr(entry.key.rfind('.') + 1), override_node(entry, *key, problems_),
             entry.place);
    }
  }

  Config finish(const BuildFeatures& features) {
    choose_length();
    choose_occasions();
    evaluate_once();
    Config otherwise = merge_model_file();
    Config::Model& m = config_.model;
    Config::Data& d = config_.data;
    derive_of_texts(otherwise);
    for (const CompletedValue& completed : m.family().complete(m.values))
      config_.derived["model." + completed.key] = completed.from;
    complete_one_by_one(otherwise.model);
    const ModelFacts model = m.facts();
    derive_of_rule(otherwise);
    if (d.sequence_length == 0) choose_sequence_length(model);
    if (d.pad_to_multiple_of == 0 && d.padding != Padding::kMax)
      derive("data.pad_to_multiple_of", d.pad_to_multiple_of, default_multiple(config_), "data.padding");
    if (d.high == 0) derive("data.high", d.high, model.vocabulary.value, "model." + model.vocabulary.key);
    begin_anew();
    take_memory_of_machine();
    if (!config_.origins.contains("data.seed"))
      derive("data.seed", d.seed, config_.training.seed, "training.seed");
    if (config_.device.model.empty())
      derive("device.model", config_.device.model,
             config_.device.backend == BackendKind::kCuda ? "h200" : "cpu", "device.backend");
    constexpr int64_t kWarmStep = 3;  // the first ones also pay for what happens once
    const bool timed = config_.device.backend != BackendKind::kCuda;
    const int64_t profiled = timed ? std::min(kWarmStep, config_.training.max_steps) : 0;
    if (!config_.origins.contains("profiling.step"))
      derive("profiling.step", config_.profiling.step, profiled, "training.max_steps and device.backend");
    otherwise.profiling.step = profiled;
    otherwise.data.high = model.vocabulary.value;
    otherwise.evaluation.format = d.format;
    otherwise.data.seed = config_.training.seed;
    const std::vector<Finding> of_adapters = complete_lora(config_, otherwise);
    std::vector<Finding> found = find_all(otherwise, features);
    while (const Finding* const one = find_to_give_way(found)) {
      give_way(*one, otherwise);
      found = find_all(otherwise, features);
    }
    found.insert(found.end(), of_adapters.begin(), of_adapters.end());
    config_.unreached = find_unreached(config_, otherwise);
    if (config_.parallelism.data_parallel_size > 0) {
      for (Finding& finding : resolve_batch(config_)) found.push_back(std::move(finding));
    }
    report(found, config_, broken_, problems_);
    return std::move(config_);
  }

 private:
  template <typename T>
  void derive(const char* key, T& value, const std::type_identity_t<T>& made, const std::string& from) {
    value = made;
    config_.derived[key] = from;
  }

  // The defaults of the update rule.
  void derive_of_rule(Config& otherwise) {
    for (const auto& [setting, value] : optimizer_entry(config_.optimizer.name).defaults) {
      const ConfigKey* key = table_.find("optimizer", std::string(setting));
      YamlNode node;
      node.kind = YamlNode::Kind::kScalar;
      node.text = print_value(value, {});
      key->read(otherwise, node);
      if (config_.origins.contains(key->path())) continue;
      key->read(config_, node);
      config_.derived[key->path()] = "optimizer.name";
    }
  }

  // A run counts steps or epochs. Where the file says one and the command line the other, that one wins.
  void choose_length() {
    if (config_.training.epochs == 0) return;
    const std::string steps = "training.max_steps", epochs = "training.epochs";
    const auto is_word = [&](const std::string& key) {
      return config_.origins.contains(key) && config_.origins.at(key).line == 0;
    };
    const bool both = config_.origins.contains(steps) && config_.origins.contains(epochs);
    if (both && is_word(steps) != is_word(epochs)) {
      config_.origins.erase(is_word(steps) ? epochs : steps);
      if (is_word(steps)) config_.training.epochs = 0;
    }
    if (config_.training.epochs > 0 && !config_.origins.contains(steps))
      derive("training.max_steps", config_.training.max_steps, Config::Training::kOpenSteps,
             "training.epochs, when the samples are counted");
  }

  // Where the file says how many steps lie between two and the command line how many epochs, or the other way round, the
  // command line wins.
  void choose_occasions() {
    for (const auto& [steps, epochs, every_steps, every_epochs] : occasions(config_)) {
      const bool by_steps = is_of_command_line(steps);
      if (every_steps == 0 || every_epochs == 0 || by_steps == is_of_command_line(epochs)) continue;
      config_.origins.erase(by_steps ? epochs : steps);
      if (by_steps) every_epochs = 0;
      if (!by_steps) every_steps = 0;
    }
  }

  // A run without steps that has a path to evaluate on evaluates once.
  void evaluate_once() {
    Config::Evaluation& e = config_.evaluation;
    if (config_.training.max_steps == 0 && config_.training.epochs == 0 && !e.path.empty() && !e.runs() &&
        !config_.origins.contains("evaluation.every_steps"))
      derive("evaluation.every_steps", e.every_steps, int64_t{1}, "training.max_steps 0");
  }

  // A run that may replace another's files does not go on from its snapshots, unless its user says so.
  void begin_anew() {
    if (config_.overwrite && config_.saves_snapshots() && config_.training.max_steps > 0 &&
        !config_.origins.contains("resume"))
      derive("resume", config_.resume, "never", "overwrite");
  }

  // A plan by a budget needs one.
  void take_memory_of_machine() {
    CheckpointingSettings& c = config_.activation_checkpointing;
    const bool plans = c.mode == CheckpointingMode::kAuto || c.mode == CheckpointingMode::kDtr;
    if (!plans || !c.plan.empty() || config_.device.memory_limit > 0 ||
        config_.origins.contains(std::string(kMemoryBudget)))
      return;
    if (const auto share = machine_share(config_))
      derive(kMemoryBudget, c.memory_budget, share->bytes, share->from);
  }

  std::vector<Finding> find_all(const Config& otherwise, const BuildFeatures& features) const {
    std::vector<Finding> found = validate(config_);
    for (Finding& finding : check_build(config_, features)) found.push_back(std::move(finding));
    check_device_model(found);
    for (Finding& finding : find_inert(config_, otherwise, spoken_)) found.push_back(std::move(finding));
    return found;
  }

  bool is_of_file(const std::string& key) const {
    const auto origin = config_.origins.find(key);
    return origin != config_.origins.end() && origin->second.line > 0;
  }
  bool is_of_command_line(const std::string& key) const {
    const auto origin = config_.origins.find(key);
    return origin != config_.origins.end() && origin->second.text.starts_with(kCommandLine);
  }

  const Finding* find_to_give_way(const std::vector<Finding>& found) const {
    for (const Finding& finding : found) {
      if (!finding.gives_way || !is_of_file(finding.keys.front())) continue;
      if (std::any_of(finding.keys.begin() + 1, finding.keys.end(),
                      [&](const std::string& key) { return is_of_command_line(key); }))
        return &finding;
    }
    return nullptr;
  }

  // From then on the key counts as given by the word that it gave way to.
  void give_way(const Finding& finding, const Config& otherwise) {
    const std::string& path = finding.keys.front();
    const std::size_t dot = path.rfind('.');
    const ConfigKey& key = *table_.find(dot == std::string::npos ? "" : path.substr(0, dot),
                                        dot == std::string::npos ? path : path.substr(dot + 1));
    const auto cause = std::find_if(finding.keys.begin() + 1, finding.keys.end(),
                                    [&](const std::string& other) { return is_of_command_line(other); });
    const bool is_late = *cause == "training.max_steps";
    if (is_late && path == "memory_report.at") {
      drop_late_occasions(config_);
    } else if (is_late && path == "debug.dump_step") {
      config_.debug.dump_step = config_.training.max_steps;
    } else {
      Problems none;
      key.read(config_, parse_document("value", key.print(otherwise), none));
    }
    const Place word = config_.origins.at(*cause);
    config_.given_way.push_back(
        fmt::format("{}: {}; the command line has the last word, and this run has {}={}",
                    config_.origins.at(path).text, finding.message, path, key.print(config_)));
    config_.origins[path] = word;
  }

  // The tokenizer, and as many classes as the data has, whatever the model's own file says of another head.
  void derive_of_texts(Config& otherwise) {
    Config::Data& d = config_.data;
    if (!config_.origins.contains("evaluation.format"))
      derive("evaluation.format", config_.evaluation.format, d.format, "data.format");
    choose_tokenizer();
    if (!reads_texts(config_)) return;
    const bool has_labels =
        config_.task == Task::kSequenceClassification || config_.task == Task::kTokenClassification;
    const std::optional<int64_t> labels = known_labels(config_);
    if (!has_labels || !labels || !table_.find("model", "num_labels") ||
        config_.origins.contains("model.num_labels"))
      return;
    config_.model.values.set("num_labels", *labels);
    config_.derived["model.num_labels"] = d.labels.empty() ? "data.format" : "data.labels";
    otherwise.model.values.set("num_labels", *labels);
  }

  // The model's longest, or less where the tokenizer that makes the sequences says so.
  void choose_sequence_length(const ModelFacts& model) {
    Config::Data& d = config_.data;
    const bool makes_them = !d.tokenizer.empty() && (reads_texts(config_) || reads_streams(config_));
    const int64_t longest = makes_them ? longest_of_tokenizer(d.tokenizer) : 0;
    if (longest > 0 && longest < model.longest.value)
      derive("data.sequence_length", d.sequence_length, longest, "data.tokenizer");
    else
      derive("data.sequence_length", d.sequence_length, model.longest.value, "model." + model.longest.key);
  }

  // For a text that a language model reads, "bytes" says that there is none, as "" does where it is given.
  void choose_tokenizer() {
    std::string& tokenizer = config_.data.tokenizer = hub_snapshot(config_.data.tokenizer);
    const std::string& model = config_.model.pretrained;
    const bool streams = reads_streams(config_);
    if (streams && tokenizer == "bytes") tokenizer.clear();
    if (!tokenizer.empty() || model.empty()) return;
    const bool has_choice = streams && !config_.origins.contains("data.tokenizer");
    if (reads_texts(config_) || (has_choice && !parts_of_tokenizer(model).empty()))
      derive("data.tokenizer", tokenizer, model, "model.pretrained");
  }

  // What an open value of the model is completed to follows from the others as they are given.
  void complete_one_by_one(Config::Model& otherwise) const {
    for (const ModelKey& key : otherwise.family().keys) {
      ModelValues values = config_.model.values;
      values.set(key.name, otherwise.values.at(key.name));
      otherwise.family().complete(values);
      otherwise.values.set(key.name, values.at(key.name));
    }
  }

  // What a section holds, or the document: keys, and sections inside.
  void read_entries(const std::string& section, const YamlNode& body) {
    for (const auto& [key, value] : body.entries) {
      if (key.kind != YamlNode::Kind::kScalar) continue;
      if (table_.is_section(section, key.text)) {
        read_section(section.empty() ? key.text : section + "." + key.text, key.place, value);
      } else {
        read_entry(section, key, value);
      }
    }
  }

  void read_section(const std::string& section, const Place& place, const YamlNode& body) {
    if (body.kind == YamlNode::Kind::kRefused) return;
    if (body.kind == YamlNode::Kind::kMapping) return read_entries(section, body);
    const std::optional<std::string> value = text_of(body);
    const std::string answer = value ? answer_foreign_key({"", section, value}) : "";
    const std::string wrong = fmt::format("section '{}' must hold keys, found {}", section, describe(body));
    problems_.add(body.kind == YamlNode::Kind::kNull ? place : body.place, answer.empty() ? wrong : answer);
  }

  // Of a mapping that others have: what is said of the keys inside.
  void explain_inside(const std::string& path, const YamlNode& body) {
    for (const auto& [key, value] : body.entries)
      if (key.kind == YamlNode::Kind::kScalar) explain_unknown(path, key, value);
  }

  void read_entry(const std::string& section, const YamlNode& name, const YamlNode& value) {
    const ConfigKey* key = table_.find(section, name.text);
    if (!key) return explain_unknown(section, name, value);
    if (const auto [first, inserted] = given_.emplace(key->path(), name.text); !inserted) {
      problems_.add(name.place, fmt::format("'{}' and '{}' are the same key", first->second, name.text));
      return;
    }
    assign(*key, name.text, value, value.place);
  }

  void explain_unknown(const std::string& section, const YamlNode& name, const YamlNode& value) {
    if (problems_.full()) return problems_.add(name.place, "");
    for (const std::string& path : {name.text, fmt::format("{}.{}", section, name.text)})
      if (!value.entries.empty() && is_foreign_section(path) && !table_.is_section("", path))
        return explain_inside(path, value);
    problems_.add(name.place, table_.explain_unknown({section, name.text, text_of(value)}));
  }

  // `name`: that by which the key was given.
  void assign(const ConfigKey& key, const std::string& name, const YamlNode& value, const Place& place) {
    config_.origins[key.path()] = place;
    note_entries(key, value, place);
    const bool refused = value.kind == YamlNode::Kind::kRefused;
    const bool is_word = place.line == 0;
    std::string wrong = refused ? "" : answer_foreign_value(key.path(), name, value, is_word);
    if (!refused && wrong.empty()) wrong = key.read(config_, value);
    if (!wrong.empty()) problems_.add(place, fmt::format("{}: {}", key.path(), wrong));
    if (refused || !wrong.empty()) broken_.insert(key.path());
  }

  void note_entries(const ConfigKey& key, const YamlNode& value, const Place& place) {
    for (std::size_t i = 0; config_.origins.erase(origin_of_entry(key.path(), i)) > 0;) ++i;
    if (key.type != "texts" || place.line == 0) return;
    for (std::size_t i = 0; i < value.items.size(); ++i)
      config_.origins[origin_of_entry(key.path(), i)] = value.items[i].place;
  }

  void check_device_model(std::vector<Finding>& found) const {
    try {
      const DeviceModel device = read_device_model(config_.device.model);
      const CheckpointingSettings& c = config_.activation_checkpointing;
      const bool plans = c.mode == CheckpointingMode::kAuto || c.mode == CheckpointingMode::kDtr;
      const bool states = config_.optimizer.offload == OffloadTo::kDisk;
      if (plans && (states || !c.disk_checkpointing.path.empty()) &&
          (device.disk_write_bandwidth == 0 || device.disk_read_bandwidth == 0))
        found.push_back({{states ? "optimizer.offload" : "activation_checkpointing.disk_checkpointing.path",
                          "device.model"},
                         fmt::format("activation_checkpointing.mode {} cannot plan with the disk: device "
                                     "model {} does not know how fast it is; `recollect calibrate --disk "
                                     "FOLDER --out FILE` measures it",
                                     name_of(c.mode), device.name)});
    } catch (const Error& error) {
      std::string what = error.what();
      std::replace(what.begin(), what.end(), '\n', ';');
      found.push_back({{"device.model"}, fmt::format("device.model: {}; {}", what, error.hint())});
    }
  }

  // Completes the model from its config.json, and returns the configuration that had been if nothing else
  // were given.
  Config merge_model_file() {
    Config otherwise = table_.defaults();
    Config::Model& m = config_.model;
    if (m.config.empty() && m.pretrained.empty()) return otherwise;
    m.pretrained = hub_snapshot(m.pretrained);
    const std::string path = hf_config_path(m.config, m.pretrained);
    Problems found;
    std::error_code ignored;
    if (m.config.empty() && holds_adapters(m.pretrained) && !std::filesystem::exists(path, ignored))
      found.add(config_.origins["model.pretrained"],
                fmt::format(
                    "model.pretrained: {0} holds adapters; write lora.path={0}, and in model.pretrained the "
                    "model that they are of",
                    printable(m.pretrained)));
    else if (m.config.empty() && !std::filesystem::is_directory(m.pretrained, ignored))
      found.add(config_.origins["model.pretrained"],
                fmt::format("model.pretrained: there is no folder {}; nothing is downloaded: Transformers' "
                            "save_pretrained(FOLDER) makes one",
                            printable(m.pretrained)));
    else if (const auto names = hub_snapshots(m.pretrained); m.config.empty() && !names.empty())
      found.add(config_.origins["model.pretrained"],
                fmt::format("model.pretrained: {0} has several snapshots, and refs/main names none of them; "
                            "write one: {0}/snapshots/{1}",
                            printable(m.pretrained), printable(names.front())));
    else
      merge_hf_config(path, config_, found);
    if (found.empty()) {
      Problems same;
      merge_hf_config(path, otherwise, same);
      return otherwise;
    }
    // Without the model's file, every check on the model would only be noise.
    broken_.insert("model");
    problems_.append(found);
    return otherwise;
  }

  Problems& problems_;
  const KeyTable& table_;
  Config config_;
  std::map<std::string, std::string> given_;  // in the file: key -> the name it was given by
  std::set<std::string> spoken_;              // keys that only the command line gives
  std::set<std::string> broken_;              // keys whose value was refused, or "model" for all of it
};

}  // namespace

Config read_config(const std::string& path, const std::vector<std::string>& overrides,
                   const BuildFeatures& features) {
  std::string text;
  if (std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty()) {
    Problems problems;
    problems.add({path, 0, 0}, wrong);
    problems.raise();
  }
  return read_config_text(path, text, overrides, features);
}

Config read_config_text(const std::string& name, std::string_view text,
                        const std::vector<std::string>& overrides, const BuildFeatures& features) {
  Problems problems;
  const YamlNode root = parse_document(name, text, problems);
  Reader reader(name, family_of(root, overrides), problems);
  // Where the document cannot be read, nothing is known about its keys: what they lack is no mistake.
  const bool readable = root.kind == YamlNode::Kind::kMapping;
  if (!readable && root.kind != YamlNode::Kind::kRefused) {
    problems.add(root.place, fmt::format("expected a mapping of sections, found {}", describe(root)));
  }
  reader.read_document(root);
  reader.read_overrides(overrides);
  if (!readable) problems.raise();
  Config config = reader.finish(features);
  problems.raise();
  return config;
}

}  // namespace recollect
