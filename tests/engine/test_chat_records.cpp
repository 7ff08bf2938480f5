// Records of conversations in every shape, as tokens and what of them is learned; and those that are damaged.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/ignored_label.h"
#include "engine/data/chat/prepare_chats.h"
#include "engine/data/jinja/python_text.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content if m.content is string else "
    "m.content[0].text }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ChatRecords : public ::testing::Test {
 protected:
  ChatsSpec spec(const std::string& lines) {
    return {.paths = {folder_.write("chat.jsonl", lines)},
            .tokenizer = tokens_,
            .chat_template = template_,
            .sequence_length = 512,
            .vocabulary_size = static_cast<int64_t>(tokenizer_->vocabulary_size()),
            .threads = 2};
  }
  PreparedChats prepared(const ChatsSpec& spec) {
    return prepare_chats(*tokenizer_, spec, shape_of_files(spec.paths, spec.columns));
  }
  // The text of each sample, with what is learned in angles.
  std::vector<std::string> shown(const ChatsSpec& spec) {
    const PreparedChats chats = prepared(spec);
    remarks_ = chats.remarks;
    std::vector<std::string> texts;
    Fields sample;
    for (int64_t i = 0; i < chats.dataset->size(); ++i) {
      sample.clear();
      chats.dataset->read(i, sample);
      std::string text;
      bool before = false;
      std::vector<uint32_t> run;
      const auto flush = [&](bool learned) {
        text += tokenizer_->decode(run);
        run.clear();
        if (before != learned) text += learned ? "\u27e8" : "\u27e9";
        before = learned;
      };
      for (std::size_t j = 0; j < sample["ids"].size(); ++j) {
        const bool learned = sample["labels"][j] != kIgnoredLabel;
        EXPECT_EQ(sample["labels"][j], learned ? sample["ids"][j] : kIgnoredLabel);
        if (learned != before) flush(learned);
        run.push_back(static_cast<uint32_t>(sample["ids"][j]));
      }
      flush(false);
      texts.push_back(text);
    }
    return texts;
  }
  std::string one(const std::string& line, Learn learn = Learn::kAuto) {
    ChatsSpec of = spec(line + "\n");
    of.learn = learn;
    return shown(of).at(0);
  }
  // Without a template.
  std::string plain(const std::string& line, Learn learn = Learn::kAuto) {
    const std::string before = std::exchange(template_, "");
    std::string text = one(line, learn);
    template_ = before;
    return text;
  }

  TemporaryFolder folder_;
  std::string tokens_ = test::tokenizer_golden_folder() + "/../chat/tokenizer";
  std::string template_ = folder_.write("own.jinja", kChatMl);
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(tokens_);
  std::vector<std::string> remarks_;
};

TEST_F(ChatRecords, EveryShapeIsLearnedAsItShould) {
  const std::string two =
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
          {"role": "user", "content": [{"type": "text", "text": "c"}]}, {"role": "assistant", "content": "d"}]})";
  const std::string line = jinja::replaced(two, "\n", "", -1);
  const std::string
      head = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n",
      middle = "\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(one(line), head + "⟨b<|im_end|>⟩" + middle + "⟨d<|im_end|>⟩\n");
  EXPECT_EQ(one(line, Learn::kCompletion), head + "b<|im_end|>" + middle + "⟨d<|im_end|>\n⟩");
  EXPECT_EQ(one(line, Learn::kAll), "⟨" + head + "b<|im_end|>" + middle + "d<|im_end|>\n⟩");
  EXPECT_NE(remarks_.at(0).find("1 conversations (messages): all tokens learned"), std::string::npos)
      << remarks_[0];
  const std::string asked = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(one(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
            asked + "⟨b<|im_end|>⟩\n");
  EXPECT_EQ(
      one(R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})"),
      asked + "⟨b<|im_end|>\n⟩");
  EXPECT_EQ(one(R"({"instruction": "a", "input": "", "output": "b"})"), asked + "⟨b<|im_end|>\n⟩");
  const std::string called = jinja::replaced(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"name": "n"}]},
      {"role": "tool", "content": "r"}, {"role": "assistant", "content": "b"}]})",
      "\n", "", -1);
  EXPECT_EQ(
      one(called),
      asked +
          "⟨<tool_call>{\"name\": "
          "\"n\"}</"
          "tool_call><|im_end|>⟩\n<|im_start|>tool\nr<|im_end|>\n<|im_start|>assistant\n⟨b<|im_end|>⟩\n");
  // Texts, of which the tokenizer has no special tokens around.
  EXPECT_EQ(plain(R"({"prompt": "a:", "completion": " b"})"), "a:⟨ b</s>⟩");
  EXPECT_EQ(plain(R"({"prompt": "a:", "completion": " b</s>"})", Learn::kAll), "⟨a: b</s>⟩");
  EXPECT_EQ(plain(R"({"segments": [{"label": false, "text": "a"}, {"label": true, "text": "b"}]})"), "a⟨b⟩");
  const std::string alpaca = plain(R"({"instruction": "do", "output": "b"})");
  EXPECT_NE(alpaca.find("\n\n### Instruction:\ndo\n\n### Response:\n⟨b</s>⟩"), std::string::npos) << alpaca;
}

TEST_F(ChatRecords, ErrorsNameFileLineAndTurn) {
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
      "\n";
  struct Case {
    const char* line;
    std::vector<std::string> mentioned;
  };
  const Case cases[] = {
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "asistant", "content": "b"}]})",
       {"turn 2", "asistant"}},
      {R"({"messages": [{"content": "a"}]})", {"turn 1 has no \"role\""}},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]})",
       {"turn 2, of role assistant, has no content"}},
      {R"({"messages": [{"role": "user", "content": 3}]})", {"the content of turn 1 is int"}},
      {R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "u"}]}]})",
       {"turn 1", "\"image\""}},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": []}]})",
       {"turn 2, of role assistant, has no content"}},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": 5}]})",
       {"\"tool_calls\" of turn 2 is no list"}},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{}]}]})",
       {"turn 2 has a tool call without the name of a function"}},
      {R"({"messages": "hello"})", {"\"messages\" is str"}},
      {R"({"messages": [7]})", {"turn 1 is no object"}},
      {R"({"text": "hello"})", {"there is no \"messages\"", "it has text"}},
      {R"({"messages": [{"role": "user", "content": "a"}], )", {"not valid JSON"}},
      {R"(["a"])", {"not an object"}},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": 3})",
       {"\"tools\" is no list"}},
      {R"({"messages": [{"role": "assistant", "content": "b"}]})", {"turn 1", "begins with the assistant"}}};
  for (const Case& one : cases) {
    ChatsSpec of = spec(good + one.line + "\n" + good);
    std::vector<std::string> mentioned = one.mentioned;
    mentioned.push_back("chat.jsonl:2: ");
    expect_error(ExitCode::kInput, mentioned, [&] { prepared(of); });
    of.on_bad_record = OnBadRecord::kSkip;
    EXPECT_EQ(shown(of).size(), 2u) << one.line;
    EXPECT_NE(remarks_.back().find("1 record passed over that is damaged, the first: "), std::string::npos)
        << remarks_.back();
  }
  // What says nothing is passed over unless it is to be an error.
  for (const char* blank :
       {"", R"({"messages": []})", R"({"messages": [{"role": "user", "content": "a"}]})"}) {
    ChatsSpec of = spec(good + blank + "\n");
    EXPECT_EQ(shown(of).size(), 1u) << blank;
    of.on_bad_record = OnBadRecord::kError;
    expect_error(ExitCode::kInput, {"chat.jsonl:2: "}, [&] { prepared(of); });
  }
  expect_error(ExitCode::kInput, {"chat.jsonl:1: ", "preference", "data.columns.completion: chosen"},
               [&] { prepared(spec(R"({"prompt": "a", "chosen": "b", "rejected": "c"})")); });
  expect_error(ExitCode::kInput, {"chat.jsonl:1: ", "data.columns.messages: chosen"},
               [&] { prepared(spec(R"({"chosen": [{"role": "user", "content": "a"}], "rejected": []})")); });
  ChatsSpec named = spec(
      R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "rejected": []})");
  named.columns.messages = "chosen";
  EXPECT_EQ(shown(named).size(), 1u);
  ChatsSpec inert = spec(R"({"segments": [{"label": true, "text": "b"}]})");
  expect_error(ExitCode::kConfiguration, {"data.chat_template has no effect"}, [&] { prepared(inert); });
  template_ = folder_.write(
      "strict.jinja",
      "{% if messages[0].role != 'system' %}\n{{ raise_exception('a system turn first') }}{% endif %}");
  expect_error(ExitCode::kInput, {"chat.jsonl:1: ", "strict.jinja:2: ", "a system turn first"},
               [&] { prepared(spec(good)); });
}

// A template that ends the whole text in its own way, and leaves thoughts and tool calls out.
TEST_F(ChatRecords, TurnsAreFoundWhateverElseSaysTheSame) {
  template_ = folder_.write(
      "own.jinja",
      "{% for m in messages %}<|im_start|>{{ m.role }} a final\n{{ m.content.split('</think>')[-1] | trim if "
      "m.content is string else '' }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
      "<|im_start|>assistant a final\n{% else %}</s>{% endif %}");
  const auto turns = [](const std::string& first, const std::string& extra) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ")" + first +
           "\"" + extra + R"(}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})";
  };
  const std::string asked = "<|im_start|>user a final\nq<|im_end|>\n<|im_start|>assistant a final\n",
                    last = asked + "⟨b<|im_end|>\n</s>⟩";
  for (const char* said : {"a", "final", "q"})
    EXPECT_EQ(one(turns(said, "")), asked + "⟨" + said + "<|im_end|>⟩\n" + last);
  EXPECT_EQ(one(turns("so a</think> a", "")), asked + "⟨a<|im_end|>⟩\n" + last);
  for (const char* unlearned : {R"(, "weight": 0)", R"(, "train": false)"})
    EXPECT_EQ(one(turns("a", unlearned)), asked + "a<|im_end|>\n" + last);
  const std::string with_ends = template_;
  template_ = folder_.write("endless.jinja",
                            "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                            "{% if add_generation_prompt %}assistant: {% else %}</s>{% endif %}");
  expect_error(ExitCode::kInput, {"turn 2: no special token ends it"}, [&] { one(turns("a", "")); });
  template_ = with_ends;
  expect_error(ExitCode::kInput, {"turn 2: the template does not write what it says"}, [&] {
    one(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ["b"]}]})");
  });
  expect_error(ExitCode::kInput, {"turn 2: the template does not write its tool calls"}, [&] {
    one(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b", "tool_calls": [{"name": "f"}]}]})");
  });
}

TEST_F(ChatRecords, LongOnesAreCutAndWhatIsThenNotLearnedIsPassedOver) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c d"}]})"
      "\n";
  ChatsSpec of = spec(line);
  const std::string whole = shown(of).at(0);
  of.sequence_length = 19;
  const std::string cut = shown(of).at(0);
  EXPECT_LT(cut.size(), whole.size());
  EXPECT_NE(cut.find("⟨b"), std::string::npos) << cut;
  of.truncation = Truncation::kNone;
  expect_error(ExitCode::kInput, {"chat.jsonl:1: ", "where a sequence has at most 19"},
               [&] { prepared(of); });
  of.truncation = Truncation::kLongestFirst;
  of.sequence_length = 4;
  expect_error(ExitCode::kInput, {"nothing is learned of its first 4 tokens"}, [&] { prepared(of); });
}

TEST_F(ChatRecords, DamagedOnesAreErrorsOrCounted) {
  const std::vector<std::string> good = {
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
      R"({"messages": [{"role": "user", "content": "a \u00e9"}, {"role": "assistant", "tool_calls": [{"name": "n"}]}], "tools": [{"x": 2}]})"};
  test::Random random(11);
  std::string lines;
  int64_t count = 0;
  for (int i = 0; i < 200; ++i) {
    std::string line = good[random.below(2)];
    for (uint64_t change = 0; change <= random.below(3); ++change) {
      const std::size_t place = random.below(line.size());
      if (random.below(2) == 0)
        line.erase(place, 1 + random.below(12));
      else
        line[place] = "{}[]\",:x0"[random.below(9)];
    }
    lines += line + "\n";
    ChatsSpec of = spec(good[0] + "\n" + line + "\n");
    of.on_bad_record = OnBadRecord::kError;
    try {
      EXPECT_EQ(prepared(of).dataset->size(), 2);
    } catch (const Error& error) {
      ++count;
      EXPECT_EQ(error.code(), ExitCode::kInput) << line;
      EXPECT_NE(std::string(error.what()).find("chat.jsonl:2: "), std::string::npos) << line << "\n"
                                                                                     << error.what();
    }
  }
  ChatsSpec of = spec(good[0] + "\n" + lines);
  of.on_bad_record = OnBadRecord::kSkip;
  EXPECT_EQ(static_cast<int64_t>(shown(of).size()), 201 - count);
  EXPECT_GT(count, 120);
}

}  // namespace
}  // namespace recollect
