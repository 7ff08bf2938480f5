// Everything that is asked about a thousand pairs of odd texts, against Hugging Face tokenizers: places, words,
// types, special tokens around texts, windows, and texts decoded from ids.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using nlohmann::json;
using test::fnv;
using test::TemporaryFolder;

constexpr std::size_t kPairs = 1000;

std::string golden_path(const std::string& name) { return test::tokenizer_golden_folder() + "/" + name; }

std::string signature(std::span<const Token> tokens) {
  std::vector<uint32_t> values;
  for (const Token& token : tokens)
    for (const int64_t value : {int64_t{token.id}, int64_t{token.type}, int64_t{token.begin},
                                int64_t{token.end}, int64_t{token.word}, int64_t{token.sequence}})
      values.push_back(static_cast<uint32_t>(value));
  return fnv(values);
}

std::string combined(const std::vector<std::string>& signatures) {
  std::string all;
  for (const std::string& one : signatures) all += (all.empty() ? "" : " ") + one;
  return fnv(all);
}

std::vector<uint32_t> ids_of(std::span<const Token> tokens) {
  std::vector<uint32_t> ids;
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

// As odd_record() of make_tokenizer_pairs.py.
std::string record(const Tokenizer& tokenizer, EncodingMemory& memory, std::size_t number,
                   const std::string& first_text, const std::string& second_text) {
  std::vector<Token> first, second;
  tokenizer.encode(first_text, memory, first);
  tokenizer.encode(second_text, memory, second);
  const auto one = [&](std::span<const Token> text, bool special) {
    return tokenizer.assemble(text, {}, {.special_tokens = special}).front();
  };
  const auto both = tokenizer.assemble(first, second, {}).front();
  std::vector<std::string> signatures{
      signature(one(first, false)), signature(one(first, true)), signature(both),
      signature(tokenizer.assemble(first, second, {.special_tokens = false}).front())};
  if (number % 4 == 0) {
    std::vector<std::string_view> words;
    for (std::string_view rest = first_text;; rest.remove_prefix(words.back().size() + 1)) {
      words.push_back(rest.substr(0, rest.find(' ')));
      if (words.back().size() == rest.size()) break;
    }
    std::vector<Token> tokens;
    tokenizer.encode(words, memory, tokens);
    signatures.push_back(signature(one(tokens, true)));
  }
  for (const bool skip : {false, true}) signatures.push_back(fnv(tokenizer.decode(ids_of(both), skip)));
  test::Random random(number);
  for (const Truncation how : {Truncation::kLongestFirst, Truncation::kOnlyFirst, Truncation::kOnlySecond}) {
    const uint64_t length = (how == Truncation::kLongestFirst ? 48 : 8) + random.below(60);
    const AssembleOptions options{
        .truncation = how, .max_length = length, .windows = true, .stride = random.below(4)};
    try {
      for (const auto& window : tokenizer.assemble(first, second, options))
        signatures.push_back(signature(window));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInput);
      signatures.push_back("none");
    }
  }
  return combined(signatures);
}

class TokenizerPairs : public ::testing::Test {
 protected:
  TokenizerPairs()
      : golden_(json::parse(TemporaryFolder::read(golden_path("pairs.json")))),
        texts_(test::odd_texts(2 * kPairs)) {}

  void check(const std::string& name, const Tokenizer& tokenizer) const {
    EncodingMemory memory;
    const std::string expected = golden_["hashes"][name];
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kPairs; ++i) {
      const std::string found = record(tokenizer, memory, i, texts_[i], texts_[kPairs + i]).substr(0, 8);
      if (found != expected.substr(8 * i, 8) && ++wrong <= 3)
        ADD_FAILURE() << name << ", pair " << i << ": " << json(texts_[i]) << " and "
                      << json(texts_[kPairs + i]);
    }
    EXPECT_EQ(wrong, 0u) << name;
  }

  json golden_;
  std::vector<std::string> texts_;
  TemporaryFolder folder_;
};

TEST_F(TokenizerPairs, OfEveryKind) {
  std::vector<std::string> hashes;
  for (const std::string& text : texts_) hashes.push_back(fnv(text));
  ASSERT_EQ(combined(hashes), golden_["text"]);
  for (const auto& [name, changed] : golden_["variants"].items()) {
    const std::string file = golden_path(name.substr(0, 4) + "/tokenizer.json");
    json whole = json::parse(TemporaryFolder::read(file));
    whole.update(changed);
    check(name, *load_tokenizer(folder_.write(name + "/tokenizer.json", whole.dump())));
  }
}

TEST_F(TokenizerPairs, OfficialVocabularies) {
  const auto gpt2 = test::test_data("gpt2-vocab.json"), bert = test::test_data("bert-base-uncased-vocab.txt");
  if (!gpt2 || !bert) GTEST_SKIP() << "set RECOLLECT_TEST_DATA to the folder of the vocabularies";
  check("gpt2_official", *load_tokenizer(*gpt2));
  check("bert_official", *load_tokenizer(*bert));
}

TEST(TokenizerPlaces, AreThoseOfTheText) {
  const auto bert = load_tokenizer(golden_path("bert"));
  EncodingMemory memory;
  std::vector<Token> tokens;
  bert->encode("\u0007 Caf\u0065\u0301, \U0001f642the", memory, tokens);
  ASSERT_GE(tokens.size(), 3u);
  EXPECT_EQ(tokens.front().begin, 2u);
  EXPECT_EQ(tokens.back().end, 13u);
  std::vector<uint32_t> ids;
  bert->encode("\u0007 Caf\u0065\u0301, \U0001f642the", memory, ids);
  EXPECT_EQ(ids_of(tokens), ids);
}

class TokenizerSpecials : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(TokenizerSpecials, AreNamedAsTransformersNamesThem) {
  const SpecialIds bert = load_tokenizer(golden_path("bert/vocab.txt"))->special();
  EXPECT_EQ(bert.pad, 0u);
  EXPECT_EQ(bert.unk, 1u);
  EXPECT_EQ(bert.cls, 2u);
  EXPECT_EQ(bert.sep, 3u);
  EXPECT_EQ(bert.mask, 4u);
  EXPECT_EQ(bert.bos, std::nullopt);
  const SpecialIds gpt2 = load_tokenizer(golden_path("gpt2"))->special();
  EXPECT_EQ(gpt2.eos, 0u);
  EXPECT_EQ(gpt2.bos, 0u);
  EXPECT_EQ(gpt2.pad, std::nullopt);

  folder_.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n<s>\n");
  folder_.write("special_tokens_map.json", R"({"bos_token": "<s>", "cls_token": {"content": "<s>"}})");
  EXPECT_EQ(load_tokenizer(folder_.path())->special().bos, 3u);
  EXPECT_EQ(load_tokenizer(folder_.path())->special().cls, 3u);
  folder_.write("tokenizer_config.json", R"({"added_tokens_decoder": {}, "sep_token": null})");
  EXPECT_EQ(load_tokenizer(folder_.path())->special().bos, std::nullopt);
  EXPECT_EQ(load_tokenizer(folder_.path())->special().cls, 1u);
  EXPECT_EQ(load_tokenizer(folder_.path())->special().sep, std::nullopt);
  folder_.write("tokenizer_config.json", R"({"mask_token": "[MASK]"})");  // it is added
  EXPECT_EQ(load_tokenizer(folder_.path())->special().mask, 4u);
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  test::expect_error(ExitCode::kInput,
                     {"tokenizer_class \"PreTrainedTokenizerFast\"", "vocab.txt", "BertTokenizer"},
                     [&] { load_tokenizer(folder_.path()); });
}

TEST_F(TokenizerSpecials, WhatIsNotKnownIsAnErrorOfWhoAsksForIt) {
  json file = json::parse(TemporaryFolder::read(golden_path("bert/tokenizer.json")));
  EncodingMemory memory;
  std::vector<Token> tokens;
  const auto refuses = [&](const char* pointer, const json& value, const std::string& mentioned) {
    json changed = file;
    changed[json::json_pointer(pointer)] = value;
    const auto tokenizer = load_tokenizer(folder_.write("tokenizer.json", changed.dump()));
    tokenizer->encode("the whale", memory, tokens);
    test::expect_error(ExitCode::kInput, {"tokenizer.json", mentioned}, [&] {
      tokenizer->assemble(tokens, {}, {});
      tokenizer->decode(ids_of(tokens));
    });
  };
  refuses("/post_processor/type", "Invented", "post_processor of type \"Invented\"");
  refuses("/post_processor/invented", 1, "post_processor.invented 1");
  refuses("/post_processor/single/1/Sequence/id", "C", "post_processor.single \"C\"");
  refuses("/post_processor/single/1", {{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
          "each text does not stand once");
  refuses("/post_processor/special_tokens/[CLS]/ids/0", 1 << 20, "the id 1048576, and the vocabulary");
  refuses("/post_processor", {{"type", "Sequence"}, {"processors", "x"}}, "without a list of processors");
  refuses("/decoder", {{"type", 7}}, "decoder.type is no text");
  refuses("/decoder", {{"type", "Metaspace"}}, "decoder.replacement is no text");
  refuses("/decoder", {{"type", "BPEDecoder"}, {"suffix", ""}}, "decoder.suffix is an empty text");
  refuses("/decoder", {{"type", "Invented"}}, "decoder of type \"Invented\"");
}

TEST_F(TokenizerSpecials, ACutThatLeavesNothingIsAnError) {
  const auto bert = load_tokenizer(golden_path("bert"));
  const std::vector<Token> eight(8), four(4);
  const auto refuses = [&](const AssembleOptions& options, bool pair, const std::string& mentioned) {
    test::expect_error(ExitCode::kInput, {mentioned}, [&] {
      bert->assemble(eight, pair ? std::optional<std::span<const Token>>(four) : std::nullopt, options);
    });
  };
  refuses({.truncation = Truncation::kOnlySecond, .max_length = 8}, true,
          "the first text alone has 8 tokens");
  refuses({.truncation = Truncation::kOnlySecond, .max_length = 8}, false, "there is only one");
  refuses({.truncation = Truncation::kLongestFirst, .max_length = 2}, true,
          "3 special tokens in a sequence of 2");
  refuses({.truncation = Truncation::kOnlyFirst, .max_length = 8, .windows = true, .stride = 6}, false,
          "a stride of 6 tokens");
}

TEST(Decoding, RepairsWhatIsNoText) {
  EXPECT_EQ(repair_utf8("a\xf0\x9f\x99"), "a\ufffd");
  EXPECT_EQ(repair_utf8("\xf0\x9f\x99z\xe6\xbc"), "\ufffdz\ufffd");
  EXPECT_EQ(repair_utf8("\xff\xc0\x80\xed\xa0\x80"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(repair_utf8("\xf0\x82\x82\xac"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(repair_utf8("\xf4\x90\x80\x80 \u00e9"), "\ufffd\ufffd\ufffd\ufffd \u00e9");
}

}  // namespace
}  // namespace recollect
