#include "engine/data/chat/records.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/bad_records.h"
#include "engine/data/jinja/json_text.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using jinja::Dict;
using jinja::Value;

[[noreturn]] void refuse_record(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kInput, what, std::move(hint));
}

std::string key_or(const std::string& given, const char* usual) { return given.empty() ? usual : given; }

bool holds(const Dict& record, const std::string& key) {
  const Value* found = record.named(key);
  return found && !found->is_none();
}

std::string keys_of(const Dict& record) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items) keys.push_back(key.text());
  return keys.empty() ? "it has no key" : "it has " + list_some(keys);
}

const Value& value_of(const Dict& record, const std::string& key) {
  if (const Value* found = record.named(key)) return *found;
  refuse_record(fmt::format("there is no {}", escaped_name(key)),
                keys_of(record) + "; data.columns says which is read");
}

const std::string& text_of(const Dict& record, const std::string& key) {
  const Value& value = value_of(record, key);
  if (!value.is_text())
    refuse_record(fmt::format("{} is {}, and no text", escaped_name(key), jinja::type_name(value)));
  return value.text();
}

std::string text_or_nothing(const Dict& record, const std::string& key) {
  return holds(record, key) ? text_of(record, key) : std::string();
}

Value turn_of(const std::string& role, const Value& content) {
  auto turn = std::make_shared<Dict>();
  turn->set(Value("role"), Value(role));
  turn->set(Value("content"), content);
  return Value(std::move(turn));
}

void check_part(const Value& part, const std::string& where) {
  if (part.is_text()) return;
  const Value* kind = part.dict() ? part.dict()->named("type") : nullptr;
  const Value* text = part.dict() ? part.dict()->named("text") : nullptr;
  if (kind && kind->is_text() && kind->text() != "text")
    refuse_record(fmt::format("{} has a part of type {}", where, escaped_name(kind->text())),
                  "models of this kind read text alone");
  if (!text || !text->is_text())
    refuse_record(where + " has a part that is no {\"type\": \"text\", \"text\": ...}");
}

// Names stand in "function", as OpenAI has it, or in the call itself.
void check_calls(const Value& calls, const std::string& where) {
  if (!calls.sequence()) refuse_record(fmt::format("\"tool_calls\" of {} is no list", where));
  for (const Value& call : calls.sequence()->items) {
    const Value* function = call.dict() ? call.dict()->named("function") : nullptr;
    const Value* named = function && function->dict() ? function : &call;
    const Value* name = named->dict() ? named->dict()->named("name") : nullptr;
    if (!name || !name->is_text())
      refuse_record(fmt::format("{} has a tool call without the name of a function", where),
                    "a call is {\"function\": {\"name\": ..., \"arguments\": {...}}}");
  }
}

void check_turn(const Value& turn, const std::string& where) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                         "tool",   "function",  "ipython", "model"};
  if (!turn.dict()) refuse_record(fmt::format("{} is no object with role and content", where));
  const Dict& dict = *turn.dict();
  const Value* role = dict.named("role");
  if (!role)
    refuse_record(fmt::format("{} has no \"role\"", where), keys_of(dict) + "; a turn has role and content");
  if (!role->is_text() || std::find(std::begin(kRoles), std::end(kRoles), role->text()) == std::end(kRoles))
    refuse_record(fmt::format("{} has the role {}", where,
                              role->is_text() ? escaped_name(role->text()) : "that is no text"),
                  "roles are system, user, assistant and tool");
  const Value *content = dict.named("content"), *calls = dict.named("tool_calls");
  const bool has_calls = calls && !calls->is_none();
  if (has_calls) check_calls(*calls, where);
  const bool acts = holds(dict, "function_call") || (has_calls && !calls->sequence()->items.empty());
  if (!content || content->is_none() || (content->sequence() && content->sequence()->items.empty())) {
    if (acts) return;
    refuse_record(fmt::format("{}, of role {}, has no content", where, role->text()));
  }
  if (content->is_text()) return;
  if (!content->sequence())
    refuse_record(fmt::format("the content of {} is {}, and no text", where, jinja::type_name(*content)));
  for (const Value& part : content->sequence()->items) check_part(part, where);
}

// Names of ShareGPT's speakers.
std::string role_of(const std::string& from, const std::string& where) {
  constexpr std::pair<std::string_view, std::string_view> kSpeakers[] = {{"human", "user"},
                                                                         {"user", "user"},
                                                                         {"gpt", "assistant"},
                                                                         {"chatgpt", "assistant"},
                                                                         {"bing", "assistant"},
                                                                         {"bard", "assistant"},
                                                                         {"assistant", "assistant"},
                                                                         {"model", "assistant"},
                                                                         {"function_call", "assistant"},
                                                                         {"system", "system"},
                                                                         {"tool", "tool"},
                                                                         {"observation", "tool"},
                                                                         {"function_response", "tool"}};
  for (const auto& [name, role] : kSpeakers)
    if (name == from) return std::string(role);
  refuse_record(fmt::format("{} is from {}", where, escaped_name(from)),
                "those who speak are human, gpt, system, function_call, observation and tool");
}

Value turns_of_sharegpt(const Dict& record, const std::string& key) {
  const Value& turns = value_of(record, key);
  if (!turns.sequence()) refuse_record(fmt::format("{} is no list of turns", escaped_name(key)));
  std::vector<Value> result;
  if (holds(record, "system")) result.push_back(turn_of("system", Value(text_of(record, "system"))));
  std::size_t number = 0;
  for (const Value& turn : turns.sequence()->items) {
    const std::string where = fmt::format("turn {}", ++number);
    if (!turn.dict()) refuse_record(where + " is no object with from and value");
    if (turn.dict()->named("role")) {
      result.push_back(turn);
      continue;
    }
    const Value *from = turn.dict()->named("from"), *value = turn.dict()->named("value");
    if (!from || !from->is_text()) refuse_record(where + " has no \"from\"", keys_of(*turn.dict()));
    if (!value || !value->is_text())
      refuse_record(where + " has no text under \"value\"", keys_of(*turn.dict()));
    result.push_back(turn_of(role_of(from->text(), where), *value));
  }
  return checked_turns(Value::list(std::move(result)), "turn");
}

// A list of tools, or a text of JSON that holds one.
Value tools_of(const Dict& record, const RecordColumns& columns) {
  const std::string key = key_or(columns.tools, "tools");
  if (!holds(record, key)) return jinja::None{};
  Value tools = *record.named(key);
  if (tools.is_text() && tools.text().empty()) return jinja::None{};
  if (tools.is_text()) tools = jinja::from_json(tools.text());
  if (!tools.sequence()) refuse_record(fmt::format("{} is no list of tools", escaped_name(key)));
  for (const Value& tool : tools.sequence()->items)
    if (!tool.dict()) refuse_record(fmt::format("{} has a tool that is no object", escaped_name(key)));
  return tools;
}

ChatRecord prompt_record(const Dict& record, const RecordColumns& columns) {
  const std::string prompt_key = key_or(columns.prompt, "prompt"),
                    completion_key = key_or(columns.completion, "completion");
  const Value &prompt = value_of(record, prompt_key), &completion = value_of(record, completion_key);
  ChatRecord read;
  if (prompt.is_text() && completion.is_text()) {
    read.prompt = prompt.text();
    read.completion = completion.text();
    if (read.completion.empty()) throw BlankRecord(fmt::format("{} is empty", escaped_name(completion_key)));
    return read;
  }
  read.has_turns = true;
  const auto turns = [](const Value& value, const std::string& key, const char* role) {
    if (!value.is_text() && !value.sequence())
      refuse_record(
          fmt::format("{} is {}, and neither a text nor turns", escaped_name(key), jinja::type_name(value)));
    return value.is_text() ? std::vector<Value>{turn_of(role, value)} : value.sequence()->items;
  };
  std::vector<Value> all = turns(prompt, prompt_key, "user");
  read.given = all.size();
  for (Value& turn : turns(completion, completion_key, "assistant")) all.push_back(std::move(turn));
  if (read.given == 0 || all.size() == read.given)
    throw BlankRecord("the prompt or the completion has no turn");
  read.messages = checked_turns(Value::list(std::move(all)), "turn");
  read.tools = tools_of(record, columns);
  return read;
}

ChatRecord alpaca_record(const Dict& record, bool with_template) {
  const std::string &instruction = text_of(record, "instruction"), &output = text_of(record, "output");
  const std::string input = text_or_nothing(record, "input"), system = text_or_nothing(record, "system");
  if (output.empty()) throw BlankRecord("\"output\" is empty");
  ChatRecord read{.has_turns = with_template};
  if (!with_template) {
    read.prompt =
        input.empty()
            ? fmt::format(
                  "Below is an instruction that describes a task. Write a response that appropriately "
                  "completes the request.\n\n### Instruction:\n{}\n\n### Response:\n",
                  instruction)
            : fmt::format(
                  "Below is an instruction that describes a task, paired with an input that provides "
                  "further context. Write a response that appropriately completes the request.\n\n"
                  "### Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n",
                  instruction, input);
    read.completion = output;
    return read;
  }
  std::vector<Value> turns;
  if (!system.empty()) turns.push_back(turn_of("system", Value(system)));
  turns.push_back(turn_of("user", Value(input.empty() ? instruction : instruction + "\n" + input)));
  read.given = turns.size();
  turns.push_back(turn_of("assistant", Value(output)));
  read.messages = Value::list(std::move(turns));
  return read;
}

ChatRecord segments_record(const Dict& record) {
  const Value& segments = value_of(record, "segments");
  if (!segments.sequence()) refuse_record("\"segments\" is no list");
  ChatRecord read;
  std::size_t number = 0;
  for (const Value& segment : segments.sequence()->items) {
    ++number;
    const Value* label = segment.dict() ? segment.dict()->named("label") : nullptr;
    const Value* text = segment.dict() ? segment.dict()->named("text") : nullptr;
    if (!label || !label->is<bool>() || !text || !text->is_text())
      refuse_record(fmt::format("segment {} is no {{\"label\": true or false, \"text\": ...}}", number));
    read.segments.emplace_back(jinja::truth(*label), text->text());
  }
  if (read.segments.empty()) throw BlankRecord("\"segments\" is empty");
  return read;
}

}  // namespace

RecordShape shape_of(const Value& record, const RecordColumns& columns) {
  const Dict& dict = *record.dict();
  if (!columns.text.empty()) return RecordShape::kText;
  if (!columns.messages.empty()) return RecordShape::kConversation;
  if (!columns.prompt.empty() || !columns.completion.empty()) return RecordShape::kPrompt;
  if (holds(dict, "chosen") && holds(dict, "rejected"))
    refuse_record(
        "a preference pair: \"chosen\" and \"rejected\"",
        holds(dict, "prompt")
            ? "preference tuning (DPO) is not supported; data.columns.completion: chosen trains on the "
              "answers "
              "that were chosen"
            : "preference tuning (DPO) is not supported; data.columns.messages: chosen trains on the "
              "conversations that were chosen");
  if (holds(dict, "messages")) return RecordShape::kConversation;
  if (holds(dict, "conversations")) return RecordShape::kShareGpt;
  if (holds(dict, "prompt") && holds(dict, "completion")) return RecordShape::kPrompt;
  if (holds(dict, "instruction") && holds(dict, "output")) return RecordShape::kAlpaca;
  if (const Value* segments = dict.named("segments"); segments && segments->sequence())
    return RecordShape::kSegments;
  return RecordShape::kText;
}

Value checked_turns(const Value& turns, const std::string& what) {
  if (!turns.sequence())
    refuse_record(fmt::format("{} is {}, and no list of turns", what, jinja::type_name(turns)));
  if (turns.sequence()->items.empty()) throw BlankRecord("a conversation without a turn");
  std::size_t number = 0;
  for (const Value& turn : turns.sequence()->items) check_turn(turn, fmt::format("turn {}", ++number));
  return turns;
}

ChatRecord read_record(const Value& record, RecordShape shape, const RecordColumns& columns,
                       bool with_template) {
  const Dict& dict = *record.dict();
  switch (shape) {
    case RecordShape::kConversation: {
      const std::string key = key_or(columns.messages, "messages");
      ChatRecord read{.has_turns = true};
      read.messages = checked_turns(value_of(dict, key), escaped_name(key));
      read.tools = tools_of(dict, columns);
      return read;
    }
    case RecordShape::kShareGpt: {
      ChatRecord read{.has_turns = true};
      read.messages = turns_of_sharegpt(dict, "conversations");
      read.tools = tools_of(dict, columns);
      return read;
    }
    case RecordShape::kPrompt:
      return prompt_record(dict, columns);
    case RecordShape::kAlpaca:
      return alpaca_record(dict, with_template);
    case RecordShape::kSegments:
      return segments_record(dict);
    case RecordShape::kText:
      break;
  }
  require(false, "a text is read as a conversation");
  return {};
}

}  // namespace recollect
