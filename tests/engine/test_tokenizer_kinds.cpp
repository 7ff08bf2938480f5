// A tokenizer of every kind that tests/golden/make_tokenizer_kinds.py has trained: ids, places and decoded text of odd
// texts are those of Hugging Face `tokenizers`; its files, each part wrong once; and texts that are encoded in parts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/tokenizer/decode_stream.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"
#include "tests/engine/tokenizer_records.h"

namespace recollect {
namespace {

using nlohmann::json;
using test::expect_error;
using test::fnv;
using test::TemporaryFolder;

const json& kind_goldens() {
  static const json golden =
      json::parse(TemporaryFolder::read(test::tokenizer_golden_folder() + "/kinds/kinds.json"));
  return golden;
}

class TokenizerKinds : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const json& file) {
    return load_tokenizer(folder_.write("tokenizer.json", file.dump()));
  }
  // The file of that kind with one value changed, or added, is refused.
  void refuses(const std::string& kind, const char* pointer, const json& value,
               const std::vector<std::string>& mentioned) {
    json file = kind_goldens()["files"][kind];
    file[json::json_pointer(pointer)] = value;
    SCOPED_TRACE(kind + pointer);
    expect_error(ExitCode::kInput, mentioned, [&] { load(file); });
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizerKinds, MakeOfOddTextsWhatTokenizersDoes) {
  const json& golden = kind_goldens();
  const std::vector<std::string> texts = test::odd_texts_of_kinds(1000);
  std::string joined;
  for (const std::string& text : texts)
    joined.append(joined.empty() && &text == &texts[0] ? "" : "\n") += text;
  ASSERT_EQ(fnv(joined), golden["text"]);
  ASSERT_GE(golden["files"].size(), 40u);
  for (const auto& [name, file] : golden["files"].items()) {
    const auto tokenizer = load(file);
    EncodingMemory memory, other;
    const std::string expected = golden["digests"][name];
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string found = fnv(test::tokenizer_record(*tokenizer, memory, texts[i])).substr(0, 4);
      std::vector<uint32_t> ids, parts;
      std::vector<Token> tokens;
      tokenizer->encode(texts[i], memory, ids);
      tokenizer->encode(texts[i], other, tokens);
      bool same = ids.size() == tokens.size();
      for (std::size_t k = 0; same && k < ids.size(); ++k) same = ids[k] == tokens[k].id;
      if (const std::size_t cut = tokenizer->safe_cut(texts[i], texts[i].size() / 3); cut < texts[i].size()) {
        tokenizer->encode(std::string_view(texts[i]).substr(0, cut), other, parts);
        tokenizer->encode(std::string_view(texts[i]).substr(cut), other, parts, true);
        same &= parts == ids;
      }
      if ((found != expected.substr(4 * i, 4) || !same) && ++wrong <= 2)
        ADD_FAILURE() << name << ", text " << i << (same ? "" : " (ids alone, or in parts)") << ": "
                      << json(texts[i]);
    }
    EXPECT_EQ(wrong, 0u) << name;
  }
}

// Every part of the wire format is damaged once.
TEST_F(TokenizerKinds, DamagedModelsOfSentencePieceAreNamed) {
  using namespace std::string_literals;
  const std::string piece = "\x0a\x03\x0a\x01"s + "a",
                    whole = TemporaryFolder::read(test::tokenizer_golden_folder() + "/spbp/tokenizer.model");
  const std::pair<std::string, const char*> damages[] = {
      {"", "it has no pieces"},
      {whole.substr(0, whole.size() - 1), "it ends too early"},
      {"\x0a\x03\x0a\x01\xff"s, "a text is not UTF-8"},
      {"\x08\x01"s, "a field of another kind than it should be"},
      {"\x7b"s, "a field of no known kind"},
      {"\x0a"s + std::string(10, '\xff'), "a number without an end"},
      {piece + "\x12\x02\x18\x03", "of type 3 is not carried out here"},
      {piece + piece + "\x12\x02\x18\x02", "the piece \"a\" appears twice"}};
  for (const auto& [bytes, mentioned] : damages) {
    const std::string path = folder_.write("tokenizer.model", bytes);
    expect_error(ExitCode::kInput, {path, mentioned}, [&, at = path] { load_tokenizer(at); });
  }
}

TEST_F(TokenizerKinds, DecodeTokenByTokenAsTokenizersDoes) {
  const json& golden = kind_goldens();
  std::size_t compared = 0;
  for (const auto& [name, file] : golden["files"].items()) {
    const auto tokenizer = load(file);
    EncodingMemory memory;
    const std::string expected = golden["streams"][name];
    const std::vector<std::string> texts = test::odd_texts_of_kinds(expected.size() / 4);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (expected.substr(4 * i, 4) == "----") continue;
      DecodeStream stream([&](const std::vector<int32_t>& ids) {
        return tokenizer->decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
      });
      std::vector<uint32_t> ids;
      tokenizer->encode(texts[i], memory, ids);
      std::string parts, whole;
      for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::string part = stream.add(static_cast<int32_t>(ids[k]));
        parts.append(k > 0 ? "|" : "") += part;
        whole += part;
      }
      ASSERT_EQ(fnv(parts).substr(0, 4), expected.substr(4 * i, 4)) << name << ": " << json(texts[i]);
      ++compared;
    }
  }
  EXPECT_GT(compared, 150 * golden["files"].size());
}

// The tokenizers of whole texts, too, are cut at blanks: memory stays flat.
TEST_F(TokenizerKinds, TextsCanBeCut) {
  for (const char* name : {"llama3", "qwen2", "gpt4", "gpt4o", "deepseek", "gemma", "t5", "neox"})
    EXPECT_EQ(load(kind_goldens()["files"][name])->safe_cut("of many words", 1), 2u) << name;
  // "word" stands alone or not by what is before its blank, which is put before it.
  json llama2 = kind_goldens()["files"]["llama2"];
  EXPECT_EQ(load(llama2)->safe_cut("of many words", 1), 13u);
  std::erase_if(llama2["added_tokens"].get_ref<json::array_t&>(),
                [](const json& token) { return token["content"] == "word"; });
  EXPECT_EQ(load(llama2)->safe_cut("of many words", 1), 2u);
  EXPECT_EQ(load(kind_goldens()["files"]["split_r0"])->safe_cut("of many words", 1), 13u);
}

TEST_F(TokenizerKinds, DamagedPartsAreNamed) {
  const json regex = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
  const auto refuses_pattern = [&](const char* pattern, const std::string& mentioned) {
    json split = regex;
    split["pattern"] = {{"Regex", pattern}};
    refuses("level", "/pre_tokenizer", split, {"pre_tokenizer.pattern", mentioned});
  };
  refuses_pattern("a(b", "a group that is not closed");
  refuses_pattern("a)", "closes nothing");
  refuses_pattern("[a", "a class that is not closed");
  refuses_pattern("[[:alpha:]]", "a \"[\" in a class");
  refuses_pattern("[a&&b]", "\"&&\" in a class");
  refuses_pattern("\\p{Greek}", "the property \"Greek\"");
  refuses_pattern("(?m)a", "begins with \"(?m)\"");
  refuses_pattern("(?<x>a)", "begins with \"(?<x\"");
  refuses_pattern("\\1", "\"\\1\"");
  refuses_pattern("\\X", "\"\\X\"");
  refuses_pattern("a{3}?", "an interval {n}?");
  refuses_pattern("a**", "two quantifiers");
  refuses_pattern("a{2,1}", "the interval");
  refuses_pattern("(?i)ss", "\"ss\" without regard to case");
  refuses_pattern("(?<=a+)b", "lookbehind");
  refuses_pattern("", "pattern \"\"");
  refuses("level", "/pre_tokenizer",
          {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Glob", "a"}}}},
          {"pre_tokenizer.pattern.Regex is no text"});
  refuses("level", "/pre_tokenizer",
          {{"type", "Split"}, {"behavior", "Kept"}, {"pattern", {{"String", "a"}}}},
          {"pre_tokenizer.behavior \"Kept\""});
  refuses("level", "/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", 3}},
          {"without a list of pretokenizers"});
  refuses("level", "/pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}},
          {"delimiter is not one character"});
  refuses("level", "/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}, {"length 0"});
  refuses("level", "/model/unk_token", "[NONE]", {"unk_token names \"[NONE]\""});
  refuses("llama2_first", "/pre_tokenizer/prepend_scheme", "last", {"pre_tokenizer.prepend_scheme \"last\""});
  refuses("llama2_first", "/pre_tokenizer/replacement", "", {"replacement is not one character"});
  refuses("llama2_first", "/pre_tokenizer/add_prefix_space", false, {"add_prefix_space contradicts"});
  refuses("llama2", "/normalizer/normalizers/0/prepend", 1, {"normalizer.normalizers[0].prepend is no text"});
  refuses("llama2", "/normalizer/normalizers/1/pattern", {{"Regex", "("}},
          {"normalizer.normalizers[1].pattern"});
  refuses("llama2", "/model/unk_token", "<none>", {"model.unk_token names \"<none>\""});
  refuses("llama2", "/model/end_of_word_suffix", "</w>", {"model.byte_fallback with"});
  refuses("t5", "/normalizer/precompiled_charsmap", "?", {"normalizer.precompiled_charsmap is not base64"});
  refuses("t5", "/normalizer/precompiled_charsmap", "/////w==", {"precompiled_charsmap is damaged"});
  refuses("t5", "/normalizer/precompiled_charsmap", "BAAAAP////8=", {"precompiled_charsmap is damaged"});
  refuses("t5", "/model/unk_id", 100000, {"model.unk_id is 100000"});
  refuses("t5", "/model/vocab/3", "x", {"model.vocab[3] is not a token and its score"});
  refuses("t5", "/model/vocab", 1, {"model.vocab is not a list"});
  refuses("prefixes", "/model/merges/0", json::array({"a", "b"}), {"merge 1", "does not begin with \"##\""});
  refuses("prefixes", "/added_tokens/0/lstrip", 1, {"added_tokens[0].lstrip is neither true nor false"});
}

// "#XXXXX" has two ways of equal score by the numbers that `tokenizers` reads, which takes X, X, XXX; by the doubles that are
// nearest to what is written X, XXX, X would be better.
TEST_F(TokenizerKinds, ScoresAreReadAsTokenizersReadsThem) {
  json file = kind_goldens()["files"]["unigram_whole"];
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) file[key] = nullptr;
  file["added_tokens"] = json::array();
  file["model"]["unk_id"] = 0;
  file["model"]["vocab"] = json::parse(
      R"([["<unk>", 0.0], ["#", -4.765445269907785], ["X", -9.930837306924019], ["XXX", -11.7922180946071]])");
  const auto tokenizer = load(file);
  EncodingMemory memory;
  std::vector<uint32_t> ids;
  tokenizer->encode("#XXXXX", memory, ids);
  EXPECT_EQ(ids, (std::vector<uint32_t>{1, 2, 2, 3}));
}

TEST_F(TokenizerKinds, ATokenThatNothingStandsForIsAnErrorOfTheText) {
  json file = kind_goldens()["files"]["unigram_whole"];
  file["model"]["unk_id"] = nullptr;
  const auto tokenizer = load(file);
  EncodingMemory memory;
  std::vector<uint32_t> ids;
  tokenizer->encode("the", memory, ids);
  expect_error(ExitCode::kInput, {"\"\u4e01\" is in no token", "model.unk_id"},
               [&] { tokenizer->encode("the \u4e01", memory, ids); });
}

}  // namespace
}  // namespace recollect
