// Token ids against those of Hugging Face tokenizers, over every code point and a megabyte of everything; and
// the files that describe a tokenizer, sound and broken.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using nlohmann::json;
using test::expect_error;
using test::fnv;
using test::TemporaryFolder;

std::vector<uint32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  EncodingMemory memory;
  std::vector<uint32_t> ids;
  tokenizer.encode(text, memory, ids);
  return ids;
}

std::string golden_file(const std::string& name) { return test::tokenizer_golden_folder() + "/" + name; }

TEST(Tokenizer, SmallCases) {
  const json golden = test::read_tokenizer_goldens();
  const std::pair<const char*, const char*> files[] = {{"gpt2", "gpt2"},
                                                       {"bert", "bert"},
                                                       {"gpt2_plain", "gpt2/vocab.json"},
                                                       {"bert_plain", "bert/vocab.txt"}};
  for (const auto& [key, file] : files) {
    const auto tokenizer = load_tokenizer(golden_file(file));
    EncodingMemory memory;
    for (const json& one : golden["cases"]) {
      const auto expected = one[key].get<std::vector<uint32_t>>();
      for (int again = 0; again < 2; ++again) {  // the second time from the words remembered
        std::vector<uint32_t> ids;
        tokenizer->encode(one["text"].get<std::string>(), memory, ids);
        EXPECT_EQ(ids, expected) << key << ": " << one["text"];
      }
    }
  }
}

TEST(Tokenizer, EveryCodePoint) {
  const json golden = test::read_tokenizer_goldens()["every_code_point"];
  const std::string text = test::every_code_point();
  ASSERT_EQ(fnv(text), golden["text"]);
  EXPECT_EQ(fnv(encode(*load_tokenizer(golden_file("gpt2")), text)), golden["gpt2"]);

  const Characters characters;
  const std::pair<const char*, BertOptions> switches[] = {{"uncased", {}},
                                                          {"cased", {false, false, true}},
                                                          {"accents", {true, false, true}},
                                                          {"no_cjk", {true, true, false}}};
  for (const auto& [name, options] : switches) {
    std::string words;
    TracedText normalized;
    normalized.assign(text, 0, false);
    StepMemory memory;
    make_bert_normalizer(characters, options)->apply(normalized, memory);
    Pieces pieces;
    pieces.start(normalized.bytes, nullptr, 0);
    make_bert_words(characters)->apply(pieces, memory);
    for (const Pieces::Piece& piece : pieces.all()) words.append(pieces.of(piece)) += '\n';
    EXPECT_EQ(fnv(words), golden["bert_words"][name]) << name;
  }
}

TEST(Tokenizer, OfficialVocabularies) {
  const auto vocabulary = test::test_data("gpt2-vocab.json"),
             bert = test::test_data("bert-base-uncased-vocab.txt");
  const auto novel_path = test::test_data("moby-dick.txt");
  if (!vocabulary || !bert || !novel_path)
    GTEST_SKIP() << "set RECOLLECT_TEST_DATA to the folder of the vocabularies";
  const json golden = test::read_tokenizer_goldens();
  const std::string novel = TemporaryFolder::read(*novel_path), mixed = test::mixed_text(novel);
  ASSERT_GT(mixed.size(), 1000000u);
  ASSERT_EQ(fnv(mixed), golden["mixed"]["text"]);
  for (const auto& [name, path] : {std::pair("gpt2", *vocabulary), std::pair("bert", *bert)}) {
    const auto tokenizer = load_tokenizer(path);
    EXPECT_EQ(fnv(encode(*tokenizer, mixed)), golden["mixed"][name]) << name;
    EXPECT_EQ(fnv(encode(*tokenizer, novel)), golden["novel"][name]) << name;
  }
}

// Wherever a text may be cut, its parts have the ids of the whole.
TEST(Tokenizer, PartsOfATextHaveItsIds) {
  std::string text;
  const json golden = test::read_tokenizer_goldens();
  for (const json& one : golden["cases"]) text += one["text"].get<std::string>();
  for (const char* name : {"gpt2/vocab.json", "bert"}) {
    const auto tokenizer = load_tokenizer(golden_file(name));
    const std::vector<uint32_t> whole = encode(*tokenizer, text);
    std::size_t cuts = 0;
    for (std::size_t from = 0; from < text.size(); ++from) {
      const std::size_t cut = tokenizer->safe_cut(text, from);
      if (cut == text.size()) break;
      std::vector<uint32_t> ids = encode(*tokenizer, text.substr(0, cut));
      EncodingMemory memory;
      tokenizer->encode(std::string_view(text).substr(cut), memory, ids, true);
      ASSERT_EQ(ids, whole) << name << " cut at " << cut;
      from = cut;
      ++cuts;
    }
    EXPECT_GT(cuts, 50u) << name;
  }
  // "the sum" is an added token of this one: no cut may go through it.
  EXPECT_EQ(load_tokenizer(golden_file("gpt2"))->safe_cut("all of the sum", 0), 14u);
}

TEST(Tokenizer, InvalidUtf8) {
  EXPECT_EQ(first_invalid_utf8("plain, \u00e9 \u6f22 \U0001f642 and \xf4\x8f\xbf\xbf \xed\x9f\xbf"),
            std::string_view::npos);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe6\xbc", "\xf0\x9f\x99"}) {
    for (const char* behind : {"", "a", "\x80"}) {
      if (std::string_view(behind) == "\x80" && (bad[0] & 0xc0) == 0xc0) continue;  // may complete it
      EXPECT_EQ(first_invalid_utf8(std::string("eight of\u00e9") + bad + behind), 10u) << bad;
    }
  }
}

class TokenizerFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    gpt2_ = json::parse(TemporaryFolder::read(golden_file("gpt2/tokenizer.json")));
    bert_ = json::parse(TemporaryFolder::read(golden_file("bert/tokenizer.json")));
  }
  // tokenizer.json with one value changed, or added, is refused.
  void refuses(json file, const char* pointer, const json& value, const std::vector<std::string>& mentioned) {
    file[json::json_pointer(pointer)] = value;
    refuses_file("tokenizer.json", file.dump(), mentioned);
  }
  void refuses_file(const std::string& name, const std::string& text,
                    const std::vector<std::string>& mentioned) {
    const std::string path = folder_.write(name, text);
    expect_error(ExitCode::kInput, mentioned, [&] { load_tokenizer(path); });
  }

  TemporaryFolder folder_;
  json gpt2_, bert_;
};

TEST_F(TokenizerFiles, WhatTransformersLeavesThereOfItsLastCallIsPassedOver) {
  const std::string plain = folder_.write("plain/tokenizer.json", bert_.dump());
  bert_["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  bert_["padding"] = {{"strategy", {{"Fixed", 64}}}, {"pad_id", 0}, {"pad_token", "[PAD]"}};
  const std::string called = folder_.write("called/tokenizer.json", bert_.dump());
  const std::string text = "a text of more than two tokens";
  EXPECT_EQ(encode(*load_tokenizer(called), text), encode(*load_tokenizer(plain), text));
}

TEST_F(TokenizerFiles, WhatIsNotCarriedOutIsNamed) {
  refuses(gpt2_, "/model/dropout", 0.1, {"model.dropout 0.1"});
  refuses(gpt2_, "/model/invented", 1, {"model.invented 1"});
  refuses(gpt2_, "/model/type", "Trigram", {"model.type \"Trigram\""});
  refuses(gpt2_, "/normalizer", {{"type", "NFX"}}, {"normalizer of type \"NFX\""});
  refuses(gpt2_, "/pre_tokenizer", {{"type", "UnicodeScripts"}},
          {"pre_tokenizer of type \"UnicodeScripts\""});
  refuses(gpt2_, "/invented", "x", {"invented \"x\""});
  refuses(gpt2_, "/version", "2.0", {"version \"2.0\""});
  refuses(bert_, "/normalizer/invented", false, {"normalizer.invented false"});
}

TEST_F(TokenizerFiles, BrokenVocabulariesAreNamed) {
  refuses(gpt2_, "/model/vocab/!", 5, {"the id 5 belongs to both", "\"!\"", "\"%\""});
  refuses(gpt2_, "/model/vocab/new", 4u << 20, {"421 tokens", "the greatest id is 4194304, of \"new\""});
  refuses(gpt2_, "/model/vocab/!", -1, {"the id of \"!\" is \"-1\""});
  refuses(gpt2_, "/model/vocab", json::array(), {"the vocabulary is not an object"});
  refuses(gpt2_, "/model/merges/3", "zz \u0120", {"merge 4 names \"zz\", which is no token"});
  refuses(gpt2_, "/model/merges/3", "one", {"merge 4", "not two tokens"});
  refuses(gpt2_, "/model/merges/3", gpt2_["model"]["merges"][1], {"merges 2 and 4 are the same"});
  refuses(gpt2_, "/added_tokens/1/id", 7, {"\"the sum\" has the id 7, not 420"});
  refuses(gpt2_, "/added_tokens/1/content", "<|endoftext|>", {"\"<|endoftext|>\" appears twice"});
  refuses(gpt2_, "/added_tokens/1/content", "", {"added token \"\""});
  refuses(bert_, "/model/unk_token", "[WHAT]", {"unk_token names \"[WHAT]\", which is no token"});
  refuses_file("tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}}}",
               {"the key \"a\" appears twice"});
  refuses_file("tokenizer.json", "{\"model\": {}}", {"the vocabulary is not an object"});
  refuses_file("tokenizer.json", "{\"model\": ", {"not valid JSON"});
  refuses_file("vocab.txt", "[UNK]\na\nb\na\n", {"\"a\" appears twice, as 1 and as 3"});
  refuses_file("vocab.txt", "[UNK]\n\nb\n", {"vocab.txt:2: an empty line"});
  refuses_file("vocab.txt", "a\nb\n", {"unk_token names \"[UNK]\""});
  refuses_file("vocab.txt", "", {"the vocabulary is empty"});
  refuses_file("vocab.txt", "[UNK]\n\xff\n", {"byte 6 is not UTF-8"});
  refuses_file("alone/vocab.json", "{\"a\": 0}", {"there is no", "merges.txt"});
  const json vocabulary = json::parse(TemporaryFolder::read(golden_file("gpt2/vocab.json")));
  folder_.write("merges/merges.txt", "#version: 0.2\n\u0120 t\nh\n");
  refuses_file("merges/vocab.json", vocabulary.dump(), {"merges.txt:3", "\"h\" is not two tokens"});
  std::filesystem::create_directory(folder_.file("empty"));
  expect_error(ExitCode::kInput, {"holds no tokenizer.json"},
               [&] { load_tokenizer(folder_.path() + "/empty"); });
}

TEST_F(TokenizerFiles, SwitchesBesideAVocabulary) {
  folder_.write("vocab.txt", "[UNK]\na\nA\n\u00e9\n\u00c9\n");
  EXPECT_EQ(encode(*load_tokenizer(folder_.path()), "A \u00c9"), (std::vector<uint32_t>{1, 0}));
  folder_.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(encode(*load_tokenizer(folder_.path()), "A \u00c9"), (std::vector<uint32_t>{2, 4}));
  folder_.write("tokenizer_config.json", R"({"strip_accents": false})");
  EXPECT_EQ(encode(*load_tokenizer(folder_.path()), "A \u00c9"), (std::vector<uint32_t>{1, 3}));
  folder_.write("tokenizer_config.json", R"({"do_lower_case": 1})");
  expect_error(ExitCode::kInput, {"do_lower_case is not true or false"},
               [&] { load_tokenizer(folder_.path()); });
}

// Quadratic work would never end: a word of a megabyte, and marks in the wrong order as long as that.
TEST(Tokenizer, LongWords) {
  const auto gpt2 = load_tokenizer(golden_file("gpt2")), bert = load_tokenizer(golden_file("bert"));
  const std::string letters(1 << 20, 'a');
  std::string marks;
  for (int i = 0; i < (1 << 17); ++i) marks += "\u302e\U0001d165";
  EXPECT_FALSE(encode(*gpt2, letters).empty());
  EXPECT_FALSE(encode(*gpt2, marks).empty());
  EXPECT_EQ(encode(*bert, letters), std::vector<uint32_t>{1});
  EXPECT_EQ(encode(*bert, marks), std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace recollect
