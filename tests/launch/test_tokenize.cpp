// `recollect tokenize` as its user meets it: what it writes trains a model, what it says, and its exit
// status.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/process.h"

namespace recollect::test::tokenize_test {
namespace {

const std::string kGoldens = RECOLLECT_SOURCE_DIR "/tests/golden/tokenizer/";

class Tokenize : public ::testing::Test {
 protected:
  Finished tokenize(const Words& words, const std::string& tokenizer = kGoldens + "gpt2") const {
    return place_.recollect(Words{"tokenize", "--tokenizer", tokenizer} + words);
  }
  void refuses(int status, const Words& words, const std::string& says,
               const std::string& tokenizer = kGoldens + "gpt2") const {
    const Finished finished = tokenize(words, tokenizer);
    EXPECT_EQ(finished.status, status) << finished.out << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << says << "\n" << finished.err;
    EXPECT_EQ(finished.err.find("this is a bug"), std::string::npos) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(place_.file("out.bin")));
  }
  std::string write_text(int lines) const {
    std::string text;
    for (int i = 0; i < lines; ++i)
      text += "The whale, the white whale! Call me " + std::to_string(i) + ".\n";
    return place_.folder().write("text.txt", text);
  }

  Workplace place_;
};

TEST_F(Tokenize, WhatItWritesIsTrainedOn) {
  const std::string text = write_text(300);
  for (const Words& format : {Words{}, Words{"--format", "megatron"}, Words{"--format", "headerless"}}) {
    const Finished made = tokenize(Words{"--output", "corpus.bin", "--threads", "2", text} + format);
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_NE(made.out.find("corpus.bin: "), std::string::npos) << made.out;
    EXPECT_NE(made.out.find("tokens (uint16, vocabulary of 421) in 1 documents, from "), std::string::npos)
        << made.out;
    EXPECT_NE(made.out.find("MB/s"), std::string::npos) << made.out;
    Words data{"data.format=tokens", "data.path=corpus.bin", "model.vocab_size=421"};
    if (format.size() > 1 && format[1] == "headerless") data.push_back("data.dtype=uint16");
    const Finished trained = place_.train(data);
    EXPECT_EQ(trained.status, 0) << trained.out << trained.err;
    std::filesystem::remove(place_.file("corpus.idx"));
  }
}

TEST_F(Tokenize, DocumentsEndWithTheTokenAskedFor) {
  const std::string lines = place_.folder().write("in.jsonl", "{\"body\": \"a\"}\n{\"body\": \"b\"}\n");
  const auto ids = [&](const Words& words) {
    const Finished made =
        tokenize(Words{"--output", "ids", "--format", "headerless", "--key", "body", lines} + words);
    EXPECT_EQ(made.status, 0) << made.err;
    const std::string bytes = test::TemporaryFolder::read(place_.file("ids"));
    std::vector<uint16_t> read(bytes.size() / 2);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(read.data()));
    return read;
  };
  EXPECT_EQ(ids({}), (std::vector<uint16_t>{65, 0, 66, 0}));
  EXPECT_EQ(ids({"--end-of-document", "none"}), (std::vector<uint16_t>{65, 66}));
  EXPECT_EQ(ids({"--end-of-document", "!"}), (std::vector<uint16_t>{65, 1, 66, 1}));
}

TEST_F(Tokenize, MistakesAreNamed) {
  const std::string text = write_text(1), bad = place_.folder().write("bad.txt", "ab\xff");
  refuses(2, {text}, "tokenize needs --output");
  refuses(2, {"--output", "out.bin"}, "name files or folders");
  refuses(2, {"--output", "out.bin", text, "--format", "arrow"}, "unknown format \"arrow\"");
  refuses(2, {"--output", "out.bin", text, "--format", "headerless", "--dtype", "half"},
          "unknown --dtype half");
  refuses(2, {"--output", "out.bin", text, "--threads", "0"}, "--threads 0");
  refuses(2, {"--output", "out.bin", text, "--end-of-document", "<eos>"}, "<eos> is no token");
  refuses(2, {"--output", "out.bin", text, "--fast"}, "--fast");
  refuses(3, {"--output", "out.bin", bad}, "bad.txt: byte 2: not UTF-8");
  refuses(3, {"--output", "out.bin", "nowhere.txt"}, "there is no file or folder nowhere.txt");
  refuses(3, {"--output", "out.bin", text}, "holds no tokenizer.json", place_.folder().path());
  refuses(6, {"--output", "no/out.bin", text}, "cannot create no/out.bin");
  EXPECT_EQ(place_.recollect({"tokenize", text, "--output", "out.bin"}).status, 2);
}

// A disk that is full after the first chunks, as a limit on the size of files. What was there stays.
TEST_F(Tokenize, WritingFails) {
  write_text(200000);
  place_.folder().write("corpus.bin", "old");
  const std::string command = "ulimit -f 100; trap '' XFSZ; exec " + recollect_binary() +
                              " tokenize --tokenizer " + kGoldens + "bert --output corpus.bin text.txt";
  Process process({"bash", "-c", command}, place_.folder().path());
  const Finished finished = process.wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 6) << finished.out << finished.err;
  EXPECT_NE(finished.err.find("cannot write corpus.bin"), std::string::npos) << finished.err;
  EXPECT_EQ(test::TemporaryFolder::read(place_.file("corpus.bin")), "old");
  for (const auto& entry : std::filesystem::directory_iterator(place_.folder().path()))
    EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
}

}  // namespace
}  // namespace recollect::test::tokenize_test
