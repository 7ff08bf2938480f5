// Chat templates against Transformers: what the language does, whole templates, masks; and templates that are damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/data/chat/encoder.h"
#include "engine/data/jinja/json_text.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/jinja/template.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using jinja::Dict;
using jinja::Template;
using jinja::Value;
using test::TemporaryFolder;

std::string chat_golden(const std::string& name) {
  return test::tokenizer_golden_folder() + "/../chat/" + name;
}

Value golden_json(const std::string& name) {
  return jinja::from_json(TemporaryFolder::read(chat_golden(name)));
}

// By name, in the order of the file.
std::vector<std::pair<std::string, std::string>> golden_templates() {
  std::vector<std::pair<std::string, std::string>> templates;
  for (const std::string& part :
       jinja::split(TemporaryFolder::read(chat_golden("templates.txt")), "=== ", -1, false)) {
    const std::size_t end = part.find('\n');
    if (end != std::string::npos) templates.emplace_back(part.substr(0, end), part.substr(end + 1));
  }
  return templates;
}

const Value& at(const Value& dict, const char* key) {
  const Value* found = dict.dict()->named(key);
  require(found != nullptr, "a golden lacks a key");
  return *found;
}
const std::vector<Value>& items_of(const Value& list) { return list.sequence()->items; }

TEST(ChatTemplates, TheLanguageIsJinjas) {
  const Value golden = golden_json("expressions.json");
  std::string whole = TemporaryFolder::read(chat_golden("expressions.txt"));
  whole.pop_back();
  const std::vector<std::string> sources = jinja::split(whole, "\n@@@\n", -1, false);
  Dict variables = *at(golden, "values").dict();
  for (const char* none : {"tools", "documents"}) variables.set(none, jinja::None{});
  variables.set("add_generation_prompt", false);
  const std::vector<Value>& results = items_of(at(golden, "results"));
  ASSERT_EQ(sources.size(), results.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    try {
      const jinja::Rendered rendered = Template(sources[i], "t").render(variables, 1'790'000'000);
      ASSERT_TRUE(results[i].dict()) << sources[i] << "\n-> " << rendered.text;
      EXPECT_EQ(rendered.text, at(results[i], "text").text()) << sources[i];
      const Value* spans = results[i].dict()->named("spans");
      ASSERT_EQ(rendered.generations.size(), spans ? items_of(*spans).size() : 0) << sources[i];
      for (std::size_t j = 0; spans && j < rendered.generations.size(); ++j)
        EXPECT_EQ(items_of(items_of(*spans)[j])[0].integer(), rendered.generations[j].begin) << sources[i];
    } catch (const Error& error) {
      EXPECT_TRUE(results[i].is_none()) << sources[i] << "\n" << error.what();
      EXPECT_EQ(error.code(), ExitCode::kInput) << sources[i];
    }
  }
}

class GoldenChats : public ::testing::Test {
 protected:
  GoldenChats() {
    for (const auto& [name, source] : golden_templates()) {
      const std::string file = folder_.write(name + ".jinja", source);
      templates_.emplace(name, std::make_unique<ChatTemplates>(*tokenizer_, chat_golden("tokenizer"), file));
    }
  }
  std::vector<uint32_t> ids_of(const std::string& text) {
    std::vector<uint32_t> ids;
    tokenizer_->encode(text, memory_, ids);
    return ids;
  }
  ChatRecord record_of(const Value& conversation) {
    const Value* tools = conversation.dict()->named("tools");
    return {.has_turns = true,
            .messages = at(conversation, "messages"),
            .tools = tools ? *tools : Value(jinja::None{})};
  }
  static std::string bytes_of(const std::vector<bool>& mask) { return std::string(mask.begin(), mask.end()); }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(chat_golden("tokenizer"));
  EncodingMemory memory_;
  std::map<std::string, std::unique_ptr<ChatTemplates>> templates_;
};

TEST_F(GoldenChats, TextsIdsAndMasksAreTransformers) {
  const Value golden = golden_json("cases.json");
  int64_t refused = 0, masked = 0;
  for (const Value& one : items_of(at(golden, "cases"))) {
    const std::string& name = at(one, "template").text();
    const ChatRecord record = record_of(
        items_of(at(golden, "conversations"))[static_cast<std::size_t>(at(one, "conversation").integer())]);
    const ChatTemplates& templates = *templates_.at(name);
    const Value *text = one.dict()->named("text"), *mask = one.dict()->named("mask");
    const std::string what = fmt::format("{} {}", name, at(one, "conversation").integer());
    if (!text) {
      ++refused;
      EXPECT_THROW(templates.render(record.messages, record.tools, jinja::truth(at(one, "prompt"))), Error)
          << what;
      continue;
    }
    const std::string rendered =
        templates.render(record.messages, record.tools, jinja::truth(at(one, "prompt"))).text;
    EXPECT_EQ(test::fnv(rendered), text->text()) << what << "\n" << rendered;
    EXPECT_EQ(test::fnv(ids_of(rendered)), at(one, "ids").text()) << what;
    if (!mask || jinja::truth(at(one, "prompt"))) continue;
    ++masked;
    const LearnedTokens learned =
        ChatEncoder(*tokenizer_, templates, Learn::kAssistant).encode(record, memory_);
    EXPECT_EQ(test::fnv(bytes_of(learned.learned)), mask->text()) << what;
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(masked, 10);
}

// The same templates without {% generation %} have the same tokens found by turns.
TEST_F(GoldenChats, TurnsAreFoundWithoutGeneration) {
  const Value golden = golden_json("cases.json");
  const auto sources = golden_templates();
  int64_t compared = 0;
  for (const char* name : {"header-generation", "generation-tools"}) {
    const auto source =
        std::find_if(sources.begin(), sources.end(), [&](const auto& one) { return one.first == name; });
    std::string plain = source->second;
    plain = jinja::replaced(plain, "endgeneration", "endif", -1);
    plain = jinja::replaced(plain, "generation %}", "if true %}", -1);
    plain = jinja::replaced(plain, "generation -%}", "if true -%}", -1);
    const ChatTemplates without(*tokenizer_, chat_golden("tokenizer"), folder_.write("plain.jinja", plain));
    for (const Value& conversation : items_of(at(golden, "conversations"))) {
      const ChatRecord record = record_of(conversation);
      try {
        const LearnedTokens marked =
            ChatEncoder(*tokenizer_, *templates_.at(name), Learn::kAssistant).encode(record, memory_);
        const LearnedTokens found =
            ChatEncoder(*tokenizer_, without, Learn::kAssistant).encode(record, memory_);
        EXPECT_EQ(found.ids, marked.ids) << name;
        EXPECT_EQ(found.learned, marked.learned) << name << "\n"
                                                 << without.render(record.messages, record.tools, false).text;
        ++compared;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kInput) << error.what();
      }
    }
  }
  EXPECT_GT(compared, 30);
}

// The last turn is written with an empty thought, and earlier ones without.
TEST_F(GoldenChats, TurnsAreFoundWhereTheLastOneIsWrittenInAnotherWay) {
  const ChatRecord record{.has_turns = true,
                          .messages = jinja::from_json(
                              R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "bb"},
      {"role": "user", "content": "bb"}, {"role": "assistant", "content": "dd"}])"),
                          .tools = jinja::None{}};
  const LearnedTokens found =
      ChatEncoder(*tokenizer_, *templates_.at("thinking-chatml"), Learn::kAssistant).encode(record, memory_);
  std::string learned;
  for (std::size_t i = 0; i < found.ids.size(); ++i)
    learned += found.learned[i] ? tokenizer_->decode(std::vector{static_cast<uint32_t>(found.ids[i])}) : "\x01";
  EXPECT_EQ(jinja::split(jinja::replaced(learned, "\x01", " ", -1), std::nullopt, -1, false),
            (std::vector<std::string>{"bb<|im_end|>", "<think>", "</think>", "dd<|im_end|>"}));
}

TEST(ChatTemplates, WhatIsNotSupportedNamesItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n\n{% include 'x' %}", "t:3: the tag 'include' is not supported"},
      {"a\n{{ b | urlize }}", "t:2: the filter 'urlize' is not supported"},
      {"{{ b is prime }}", "t:1: the test 'prime' is not supported"},
      {"\n{% if a %}", "t:2: the template ends, and {% endif %} is missing"},
      {"\n\n{{ a", "t:3: a value {{ without its end }}"},
      {"{% break %}", "t:1: {% break %} outside of a loop"},
      {"{% for a b in c %}{% endfor %}", "t:1: expected 'in'"},
      {"{{ 'a }}", "t:1: a text without its closing quote"},
      {"{{ (a] }}", "t:1: unexpected ']'"},
      {"x\n{{ raise_exception('Roles must alternate') }}",
       "t:2: the template refuses this: Roles must alternate"},
      {"{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", "macros that call one another without an end"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       "does not come to an end"},
      {"{{ 'x' * 1000000000 }}", "a text of more than 64 MiB"},
      {"{{ [0] * 1000000000 }}", "a list that is too large"},
      {"{{ 'x'.center(1000000000) }}", "a text of more than 64 MiB"},
      {"{{ '%999999999d' % 3 }}", "a field of more than a million characters"},
      {"{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
       "does not come to an end"},
      {"{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}",
       "too large"},
      {"{{ 9223372036854775807 + 1 }}", "a whole number beyond 64 bits"}};
  for (const auto& [source, message] : cases) {
    try {
      Template(source, "t").render({}, 0);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << source << "\n" << error.what();
    }
  }
  const std::string deep(5000, '('), chain = "{{ 1" + std::string(20000, '+') + " }}";
  EXPECT_THROW(Template("{{ " + deep, "t"), Error);
  EXPECT_THROW(Template(chain, "t"), Error);
}

TEST(ChatTemplates, DamagedOnesEndInAnError) {
  const auto sources = golden_templates();
  const Value variables = jinja::from_json(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "bos_token": "<s>", "tools": null})");
  test::Random random(7);
  int64_t failed = 0;
  for (int i = 0; i < 500; ++i) {
    std::string source = sources[random.below(sources.size())].second;
    for (uint64_t change = 0; change < 3; ++change) {
      const std::size_t place = random.below(source.size());
      if (random.below(2) == 0)
        source.erase(place, 1 + random.below(9));
      else
        source.insert(place, std::vector<std::string>{"{%", "%}", "{{", "'", ")", "[", " if ", "\xff",
                                                      "|"}[random.below(9)]);
    }
    try {
      Template(source, "t").render(*variables.dict(), 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInput) << error.what();
      EXPECT_EQ(std::string(error.what()).find("t:"), 0u) << error.what();
      ++failed;
    }
  }
  EXPECT_GT(failed, 300);
}

TEST(ChatTemplates, AreFoundWhereTransformersLooks) {
  const TemporaryFolder folder;
  const auto tokenizer = load_tokenizer(chat_golden("tokenizer"));
  const Value turns = jinja::from_json(R"([{"role": "user", "content": "a"}])");
  const Value tools = jinja::from_json(R"([{"name": "f"}])");
  const auto text = [&](const std::string& chosen, const Value& with) {
    return ChatTemplates(*tokenizer, folder.file("tokenizer.json"), chosen).render(turns, with, false).text;
  };
  EXPECT_THROW(text("", jinja::None{}), Error);
  folder.write("tokenizer_config.json", R"({"chat_template": "one {{ bos_token }}"})");
  EXPECT_EQ(text("", jinja::None{}), "one <s>");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
      {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  EXPECT_EQ(text("", jinja::None{}), "d");
  EXPECT_EQ(text("", tools), "t");
  EXPECT_EQ(text("rag", tools), "r");
  folder.write("chat_template.jinja", "file {{ messages[0].content }}\n");
  EXPECT_EQ(text("", tools), "file a");
  folder.write("additional_chat_templates/short.jinja", "short");
  EXPECT_EQ(text("short", jinja::None{}), "short");
  EXPECT_EQ(text(folder.write("own.jinja", "own"), tools), "own");
  test::expect_error(ExitCode::kConfiguration, {"has no template of that name"},
                     [&] { text("none", tools); });
}

}  // namespace
}  // namespace recollect
