// Conversations as their user meets them: trained on, shown, answered, and refused.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/io/json.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::chat_training_test {
namespace {

const std::string kTokenizer = RECOLLECT_SOURCE_DIR "/tests/golden/chat/tokenizer";

class ChatTraining : public ::testing::Test {
 protected:
  ChatTraining() {
    std::string lines;
    for (int i = 0; i < 12; ++i)
      lines += R"({"messages": [{"role": "user", "content": "is it )" + std::to_string(i) +
               R"("}, {"role": "assistant", "content": "yes"}]})"
               "\n";
    place_.folder().write("chat.jsonl", lines);
    place_.folder().write(
        "own.jinja",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  }
  Words data(const Words& words) const {
    return Words{"memory_report.at=[]",  "profiling.step=0",        "training.max_steps=2",
                 "model.vocab_size=460", "model.n_positions=64",    "data.format=jsonl",
                 "data.path=chat.jsonl", "data.sequence_length=64", "data.tokenizer=" + kTokenizer} +
           words;
  }

  const Workplace place_;
};

TEST_F(ChatTraining, LearnsAndAnswers) {
  for (const char* packing : {"none", "within", "across"}) {
    const Finished trained =
        place_.train(data({"data.chat_template=own.jinja", "checkpoint.save_model=true",
                           std::string("data.packing=") + packing, std::string("output_dir=") + packing}));
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_NE(
        (trained.out + trained.err).find("12 conversations (messages): the assistant's turns learned, "),
        std::string::npos)
        << trained.out << trained.err;
  }
  EXPECT_EQ(TemporaryFolder::read(place_.file("none/chat_template.jinja")),
            TemporaryFolder::read(place_.file("own.jinja")));
  const Finished text = place_.recollect(
      {"generate", "--model", "none", "--chat", "--json", "--max-new-tokens", "2", "--prompt", "is it 3"});
  ASSERT_EQ(text.status, 0) << text.err;
  const Finished turns =
      place_.recollect({"generate", "--model", "none", "--chat", "--json", "--max-new-tokens", "2",
                        "--prompt", R"([{"role": "user", "content": "is it 3"}])"});
  ASSERT_EQ(turns.status, 0) << turns.err;
  EXPECT_EQ(nlohmann::json::parse(text.out)["prompt_ids"], nlohmann::json::parse(turns.out)["prompt_ids"]);
  EXPECT_GT(nlohmann::json::parse(text.out)["prompt_ids"].size(), 8u);
  const Finished wrong =
      place_.recollect({"generate", "--model", "none", "--chat", "--prompt", "[{\"role\": 3}]"});
  EXPECT_EQ(wrong.status, 3);
  EXPECT_NE(wrong.err.find("--prompt: turn 1"), std::string::npos) << wrong.err;
}

TEST_F(ChatTraining, IsShownAsItIsLearned) {
  const Finished shown =
      place_.recollect({"tokenize", "--tokenizer", kTokenizer, "--chat-template", "own.jinja", "--preview",
                        "1", "--sequence-length", "40", "chat.jsonl"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("chat.jsonl:1: "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("<|im_start|>assistant\n{+yes<|im_end|>+}\n [end of document] ["),
            std::string::npos)
      << shown.out;
  EXPECT_EQ(shown.out.find("chat.jsonl:2"), std::string::npos) << shown.out;
}

TEST_F(ChatTraining, RefusesWhatDoesNothing) {
  const auto refuses = [&](const Words& words, int status, const std::string& says) {
    const Finished finished = place_.train(data(words));
    EXPECT_EQ(finished.status, status) << finished.out << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << says << "\n" << finished.err;
  };
  refuses({}, 3, "has no chat template");
  refuses({"data.chat_template=nothing"}, 2, "there is no such file");
  place_.folder().write("chat.jsonl", "{\"text\": \"The whale sails, and sails on.\"}\n");
  refuses({"data.learn=assistant"}, 2, "data.learn assistant has no effect: the records of");
  const auto keys = [](const std::string& text) { return refusal("data: {path: x, " + text + "}\n"); };
  EXPECT_NE(keys("format: text, learn: all").find("data.learn has no effect with data.format text"),
            std::string::npos);
  EXPECT_NE(
      keys("format: jsonl, tokenizer: t, columns: {text: a, messages: b}").find("more than one of text"),
      std::string::npos);
  EXPECT_EQ(keys("format: jsonl, tokenizer: t, learn: completion, columns: {prompt: a, completion: b}"),
            "accepted");
}

}  // namespace
}  // namespace recollect::test::chat_training_test
