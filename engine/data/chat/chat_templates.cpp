#include "engine/data/chat/chat_templates.h"

#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/text_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using jinja::Dict;
using jinja::Value;

constexpr const char* kDefault = "default";

// Keys whose value is null are as good as not there, and reasoning has three names.
Value plain_message(const Value& message) {
  const Dict& given = *message.dict();
  auto plain = std::make_shared<Dict>();
  Value reasoning;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (const Value* found = given.named(name); found && !found->is_none() && reasoning.is_undefined())
      reasoning = *found;
  if (!reasoning.is_undefined()) plain->set(Value("thinking"), reasoning);
  for (const auto& [key, value] : given.items)
    if (!value.is_none()) plain->set(key, value);
  if (!reasoning.is_undefined()) plain->set(Value("reasoning_content"), reasoning);
  return Value(std::move(plain));
}

}  // namespace

ChatTemplates::ChatTemplates(const Tokenizer& tokenizer, const std::string& folder, const std::string& chosen)
    : now_(std::time(nullptr)) {
  const SpecialIds& special = tokenizer.special();
  for (const auto& [name, id] : {std::pair{"bos_token", special.bos},
                                 {"eos_token", special.eos},
                                 {"unk_token", special.unk},
                                 {"sep_token", special.sep},
                                 {"pad_token", special.pad},
                                 {"cls_token", special.cls},
                                 {"mask_token", special.mask}})
    if (id) special_.set(Value(name), Value(tokenizer.token(*id)));
  std::error_code error;
  where_ = fs::is_directory(folder, error) ? folder : fs::path(folder).parent_path().string();
  if (where_.empty()) where_ = ".";
  read_folder(where_);
  if (!chosen.empty()) choose(chosen, where_);
}

void ChatTemplates::read_folder(const std::string& folder) {
  std::error_code error;
  const auto add = [&](const std::string& name, const std::string& source, const std::string& from) {
    templates_[name] = std::make_shared<const jinja::Template>(source, printable(from));
  };
  const std::string single = (fs::path(folder) / "chat_template.jinja").string();
  if (fs::exists(single, error)) add(kDefault, read_utf8(single), single);
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "additional_chat_templates", error))
    if (entry.path().extension() == ".jinja")
      add(entry.path().stem().string(), read_utf8(entry.path().string()), entry.path().string());
  const std::string config = (fs::path(folder) / "tokenizer_config.json").string();
  if (!templates_.empty() || !fs::exists(config, error)) return;
  const nlohmann::json json = parse_strict_json(read_utf8(config), config);
  const auto found = json.find("chat_template");
  if (found == json.end() || found->is_null()) return;
  const std::string from = config + ", chat_template";
  if (found->is_string()) return add(kDefault, found->get<std::string>(), from);
  const auto text_of = [&](const nlohmann::json& one, const char* key) {
    const bool is_there = one.is_object() && one.contains(key) && one[key].is_string();
    if (!is_there)
      throw Error(ExitCode::kInput,
                  from + " is neither a text nor a list of {\"name\": ..., \"template\": ...}");
    return one[key].get<std::string>();
  };
  if (!found->is_array()) text_of(*found, "name");
  for (const nlohmann::json& one : *found) {
    const std::string name = text_of(one, "name");
    add(name, text_of(one, "template"), fmt::format("{} \"{}\"", from, name));
  }
}

void ChatTemplates::choose(const std::string& chosen, const std::string& folder) {
  if (const auto named = templates_.find(chosen); named != templates_.end()) {
    const auto one = named->second;
    templates_ = {{kDefault, one}};
    return;
  }
  std::error_code error;
  if (!fs::is_regular_file(chosen, error)) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : templates_) names.push_back(name);
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("data.chat_template {}: there is no such file, and {} has no template of that name",
                    printable(chosen), printable(folder)),
        names.empty() ? "name a file of Jinja" : "it has " + list_some(names));
  }
  templates_ = {{kDefault, std::make_shared<const jinja::Template>(read_utf8(chosen), printable(chosen))}};
}

const jinja::Template& ChatTemplates::of(const Value& tools) const {
  auto found = tools.sequence() ? templates_.find("tool_use") : templates_.end();
  if (found == templates_.end()) found = templates_.find(kDefault);
  if (found != templates_.end()) return *found->second;
  throw Error(ExitCode::kInput,
              templates_.empty() ? fmt::format("{} has no chat template", printable(where_))
                                 : fmt::format("{} has no chat template called default", printable(where_)),
              "data.chat_template names a file of Jinja, or one of the folder's templates");
}

jinja::Rendered ChatTemplates::render(const Value& messages, const Value& tools,
                                      bool generation_prompt) const {
  std::vector<Value> plain;
  for (const Value& message : messages.sequence()->items) plain.push_back(plain_message(message));
  Dict variables = special_;
  variables.set(Value("messages"), Value::list(std::move(plain)));
  variables.set(Value("tools"), tools.is_undefined() ? Value(jinja::None{}) : tools);
  variables.set(Value("documents"), jinja::None{});
  variables.set(Value("add_generation_prompt"), Value(generation_prompt));
  jinja::Rendered rendered = of(tools).render(variables, now_);
  if (rendered.has_date) wrote_date_ = true;
  return rendered;
}

}  // namespace recollect
