// Text and JSONL into token files: read back by the dataset, the same from any number of threads, and errors
// that name file and byte and leave nothing behind.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/data/dataset.h"
#include "engine/data/tokenize_corpus.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

class TokenizeCorpus : public ::testing::Test {
 protected:
  std::string tokenize(const std::string& output, const CorpusSpec& spec, const std::string& format = "llm.c",
                       std::optional<TokenType> type = {}) {
    TokenWriter writer({folder_.file(output), format, tokenizer_->vocabulary_size(), type});
    tokenize_corpus(*tokenizer_, spec, writer, [](uint64_t, uint64_t) {});
    writer.finish();
    return writer.path();
  }
  void refuses(const CorpusSpec& spec, const std::vector<std::string>& mentioned) {
    const std::size_t before = folder_.count();
    expect_error(ExitCode::kInput, mentioned, [&] { tokenize("refused.bin", spec); });
    EXPECT_EQ(folder_.count(), before) << "something was left behind";
  }
  // All ids of a file, as training would read them.
  std::vector<int32_t> read(const std::string& path, const std::string& dtype = "auto") {
    const auto dataset = open_dataset(
        {DataFormat::kTokens, {path}, 2, static_cast<int64_t>(tokenizer_->vocabulary_size()), dtype});
    std::vector<int32_t> all;
    Fields sample;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      dataset->read(i, sample);
      all.insert(all.end(), sample["ids"].begin(), sample["ids"].end());
    }
    return all;
  }
  std::vector<int32_t> encode(std::string_view text) {
    EncodingMemory memory;
    std::vector<uint32_t> ids;
    tokenizer_->encode(text, memory, ids);
    return {ids.begin(), ids.end()};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ =
      load_tokenizer(test::tokenizer_golden_folder() + "/gpt2/vocab.json");
};

TEST_F(TokenizeCorpus, EveryFormatIsReadBack) {
  const std::string one = folder_.write("in/a.txt", "The whale's \u6f22\u5b57");
  const std::string two = folder_.write(
      "in/b.jsonl", "{\"id\": [1, {\"text\": 2}], \"text\": \"say \\\"no\\\"\\n\"}\n{\"text\": \"\"}\r\n");
  folder_.write("in/ignored.md", "x");
  std::vector<int32_t> expected;
  for (const char* text : {"The whale's \u6f22\u5b57", "say \"no\"\n"}) {
    const auto ids = encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
    expected.push_back(0);
  }
  if (expected.size() % 2) expected.pop_back();  // sequences of two
  CorpusSpec spec;
  spec.inputs = {folder_.file("in")};
  spec.end_of_document = tokenizer_->find("<|endoftext|>");
  ASSERT_EQ(spec.end_of_document, 0u);
  std::atomic<int64_t> blank = 0;  // the text without a token
  spec.blank_records = &blank;
  EXPECT_EQ(read(tokenize("llmc.bin", spec)), expected);
  EXPECT_EQ(blank, 1);
  EXPECT_EQ(read(tokenize("bare.bin", spec, "headerless"), "uint16"), expected);
  EXPECT_EQ(read(tokenize("wide.bin", spec, "headerless", TokenType::kU32), "uint32"), expected);
  tokenize("pair", spec, "megatron");
  EXPECT_EQ(read(folder_.file("pair")), expected);
  // Lengths and marks of the two documents, and nothing else.
  EXPECT_EQ(std::filesystem::file_size(folder_.file("pair.idx")), 34u + 2 * (4 + 8) + 3 * 8);
  spec.inputs = {two, one};  // the order is the user's
  EXPECT_EQ(read(tokenize("swapped.bin", spec)).front(), encode("say").front());
}

TEST_F(TokenizeCorpus, WideVocabularies) {
  for (const auto& [format, size, type] :
       {std::tuple("llm.c", 65536, TokenType::kU16), std::tuple("llm.c", 65537, TokenType::kU32),
        std::tuple("headerless", 65536, TokenType::kU16), std::tuple("headerless", 65537, TokenType::kU32),
        std::tuple("megatron", 65499, TokenType::kU16), std::tuple("megatron", 65500, TokenType::kI32)}) {
    TokenWriter writer({folder_.file("out.bin"), format, static_cast<std::size_t>(size), {}});
    EXPECT_EQ(writer.type(), type) << format << " " << size;
    const std::vector<uint32_t> ids{0, static_cast<uint32_t>(size) - 1};
    writer.append(ids, std::vector<std::size_t>{2});
    writer.finish();
    const auto dataset =
        open_dataset({DataFormat::kTokens, {writer.path()}, 2, size, std::string(name_of(type))});
    Fields sample;
    dataset->read(0, sample);
    EXPECT_EQ(sample["ids"], (std::vector<int32_t>{0, size - 1})) << format << " " << size;
    std::filesystem::remove(folder_.file("out.idx"));
  }
  const auto refuses = [&](const TokenFileSpec& spec, const std::vector<std::string>& mentioned) {
    expect_error(ExitCode::kConfiguration, mentioned, [&] { TokenWriter writer(spec); });
  };
  refuses({folder_.file("o"), "headerless", 70000, TokenType::kU16}, {"70000 ids", "do not fit into uint16"});
  refuses({folder_.file("o"), "headerless", 200, TokenType::kU8}, {"uint8 tokens are not written"});
  refuses({folder_.file("o"), "llm.c", 200, TokenType::kU32}, {"llm.c file is not to choose"});
  refuses({folder_.file("o"), "arrow", 200, {}}, {"unknown format \"arrow\""});
  folder_.write("o.idx", "MMIDIDX");
  refuses({folder_.file("o.bin"), "llm.c", 200, {}}, {"o.idx is there"});
}

// Several chunks, cut where they can be, in files of both kinds.
TEST_F(TokenizeCorpus, ThreadsDoNotMatter) {
  std::string text, lines;
  for (int i = 0; text.size() < (3u << 20); ++i) {
    text += "The whale, " + std::to_string(i * 7919) + (i % 5 ? "  it's\n" : "\u3000\u00e9 \n\n ");
    lines += "{\"body\": \"line " + std::to_string(i) + " \\u6f22\"}\n";
  }
  CorpusSpec spec;
  spec.key = "body";
  spec.end_of_document = 0;
  spec.inputs = {folder_.write("a.txt", text), folder_.write("b.jsonl", lines),
                 folder_.write("c.txt", "end")};
  const std::string one = TemporaryFolder::read(tokenize("out.bin", spec));
  std::vector<int32_t> whole = encode(text);
  whole.push_back(0);
  const auto read_back = read(folder_.file("out.bin"));
  ASSERT_GT(read_back.size(), whole.size());
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), read_back.begin()));
  for (const int threads : {2, 3, 8}) {
    spec.threads = threads;
    EXPECT_EQ(TemporaryFolder::read(tokenize("out.bin", spec)), one) << threads << " threads";
  }
  // Of two errors it is the first that is told, however late it is found.
  lines.insert(lines.find('\n', lines.size() / 2), "x");
  spec.inputs.push_back(folder_.write("d.jsonl", lines));
  spec.inputs.push_back(folder_.write("e.txt", "\xff"));
  for (int i = 0; i < 5; ++i) refuses(spec, {"d.jsonl: byte", "not valid JSON"});
}

TEST_F(TokenizeCorpus, BadInputIsNamed) {
  const auto text = [&](const std::string& content) {
    CorpusSpec spec;
    spec.inputs = {folder_.write("in.txt", content)};
    return spec;
  };
  const auto lines = [&](const std::string& content) {
    CorpusSpec spec;
    spec.inputs = {folder_.write("in.jsonl", content)};
    return spec;
  };
  std::string late(3 << 20, 'a');
  for (std::size_t i = 0; i < late.size(); i += 100) late[i] = ' ';
  text(""), lines("");  // both files are there when it is counted what is left behind
  refuses(text("ab\xc3"), {"in.txt: byte 2: not UTF-8"});
  refuses(text("\xed\xa0\x80"), {"in.txt: byte 0: not UTF-8"});
  refuses(text(late + "\xff"), {"in.txt: byte 3145728: not UTF-8"});
  refuses(text(late + "\xf4 \xff "), {"in.txt: byte 3145728: not UTF-8"});
  refuses(text(""), {"the input holds no text"});
  refuses(lines(""), {"the input holds no text"});
  refuses(lines("\n{\"text\": \"\"}\n"), {"the input holds no text"});
  refuses(lines("{\"text\": \"a\"}\n{\"txt\": \"a\"}"), {"byte 14: the object has no \"text\""});
  refuses(lines("{\"text\": \"a\", \"text\": \"b\"}"), {"the key \"text\" appears twice"});
  refuses(lines("{\"text\": 3}"), {"\"text\" is a number, not a string"});
  refuses(lines("{\"text\": {\"text\": \"a\"}}"), {"\"text\" is an object, not a string"});
  refuses(lines("{\"a\": {\"text\": \"a\"}}"), {"the object has no \"text\""});
  refuses(lines("[\"text\"]"), {"a list, not an object"});
  refuses(lines("\"text\""), {"a string, not an object"});
  refuses(lines("{\"text\": \"\xff\"}"), {"in.jsonl: byte 10: not valid JSON"});
  refuses(lines("{\"text\": \"\\ud800\"}"), {"which is half of a character (a surrogate)"});
  refuses(lines("{\"text\": \"a\"} x"), {"in.jsonl: byte 14: not valid JSON"});
  refuses(lines("{\"text\": \"a\", \"n\": 1e999}"), {"out of range"});
  refuses(lines(std::string("{\"text\": \"a\0\"}", 14)), {"byte 11: a zero byte"});
  refuses(lines(std::string(1 << 20, '[')), {"a list, not an object"});
  refuses(lines("{\"x\":" + std::string(1 << 20, '[')), {"not valid JSON"});
  CorpusSpec nothing;
  nothing.inputs = {folder_.file("nowhere")};
  refuses(nothing, {"there is no file or folder", "nowhere"});
}

// A mapping of it would be killed.
TEST_F(TokenizeCorpus, AFileThatIsShortenedMeanwhileIsAnError) {
  std::string lines;
  while (lines.size() < (4u << 20)) lines += "{\"text\": \"one more line\"}\n";
  for (const char* name : {"in.jsonl", "in.txt"}) {
    CorpusSpec spec;
    spec.inputs = {folder_.write(name, lines)};
    const auto shorten = [&](uint64_t, uint64_t) { std::filesystem::resize_file(spec.inputs[0], 1 << 20); };
    expect_error(ExitCode::kInput, {name, "was shortened since"}, [&] {
      TokenWriter writer({folder_.file("out.bin"), "llm.c", tokenizer_->vocabulary_size(), {}});
      tokenize_corpus(*tokenizer_, spec, writer, shorten);
    });
  }
}

// Further than what is looked at beyond a chunk.
TEST_F(TokenizeCorpus, APlaceToCutMayBeFar) {
  std::string text, lines;
  for (int i = 0; i < 3; ++i) text += std::string((1 << 20) + 30000 * i, 'a') + " ";
  for (int i = 0; i < 3; ++i) lines += "{\"text\": \"" + std::string((1 << 20) + 30000 * i, 'b') + "\"}\n";
  CorpusSpec spec;
  spec.inputs = {folder_.write("a.txt", text), folder_.write("b.jsonl", lines)};
  std::vector<int32_t> expected = encode(text);
  for (int i = 0; i < 3; ++i) {
    const std::vector<int32_t> line = encode(std::string((1 << 20) + 30000 * i, 'b'));
    expected.insert(expected.end(), line.begin(), line.end());
  }
  const std::vector<int32_t> got = read(tokenize("out.bin", spec));
  ASSERT_GE(got.size() + 1, expected.size());  // read in pairs
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
}

TEST_F(TokenizeCorpus, WhatCannotBeWritten) {
  CorpusSpec spec;
  spec.inputs = {folder_.write("in.txt", "text")};
  expect_error(ExitCode::kStorage, {"cannot create", "no/out.bin"}, [&] { tokenize("no/out.bin", spec); });
  folder_.write("old.bin", "old");
  folder_.write("bad.txt", "\xff");
  spec.inputs.push_back(folder_.file("bad.txt"));
  expect_error(ExitCode::kInput, {"bad.txt"}, [&] { tokenize("old.bin", spec); });
  EXPECT_EQ(TemporaryFolder::read(folder_.file("old.bin")), "old");
}

}  // namespace
}  // namespace recollect
