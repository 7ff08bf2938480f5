// A file that the user names for a command to write costs nothing that exists: no input, no other output, no
// file of another kind.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/process.h"

namespace recollect::test::output_files_test {
namespace {

namespace fs = std::filesystem;

const std::string kBert = RECOLLECT_SOURCE_DIR "/tests/golden/tokenizer/bert";

class OutputFiles : public ::testing::Test {
 protected:
  std::string content(const std::string& name) const { return TemporaryFolder::read(place_.file(name)); }

  // Exit code 2, those words, and nothing that was there before has changed.
  void refuses(const Words& words, const std::string& says, const std::vector<std::string>& kept) const {
    std::map<std::string, std::string> before;
    for (const std::string& name : kept) before[name] = content(name);
    const Finished finished = place_.recollect(words);
    EXPECT_EQ(finished.status, 2) << words.back() << "\n" << finished.out << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << says << "\n" << finished.err;
    for (const auto& [name, text] : before) EXPECT_EQ(content(name), text) << name;
  }

  Workplace place_;
};

TEST_F(OutputFiles, APageReplacesPagesOnlyAndATraceTraces) {
  ASSERT_EQ(place_.train({"training.max_steps=1", "checkpoint.save_model=true"}).status, 0);
  for (const char* file : {"model.safetensors", "memory.rank0.json", "metrics.jsonl", "config.json",
                           "config.resolved.yaml", "plan.yaml", "train_results.json"}) {
    const std::string path = std::string("out/") + file;
    refuses({"report", "out", "--html", path}, "--html " + path + ": the file exists and is not a page",
            {path});
    refuses({"report", "out", "--trace", path}, "--trace " + path + ": the file exists and is not a trace",
            {path});
  }
  refuses({"estimate", "c.yaml", "--html", "c.yaml"}, "--html c.yaml: the file exists", {"c.yaml"});
  refuses({"estimate", "c.yaml", "--trace", "./c.yaml"}, "--trace ./c.yaml: the file exists", {"c.yaml"});
  for (const Words& command : {Words{"report", "out"}, Words{"estimate", "c.yaml"}}) {
    refuses(command + Words{"--html", "x", "--trace", "./x"}, "--trace ./x: --html names the same file", {});
    EXPECT_FALSE(fs::exists(place_.file("x")));
    for (int times = 0; times < 2; ++times)  // their own kind, and what is empty
      EXPECT_EQ(place_.recollect(command + Words{"--html", "page.html", "--trace", "t.json"}).status, 0);
    refuses(command + Words{"--html", "t.json", "--trace", "page.html"}, "is not a page",
            {"t.json", "page.html"});
    place_.folder().write("page.html", "");
  }
  EXPECT_EQ(place_.recollect({"report", "out", "--html", "out/report.html"}).status, 0);
}

TEST_F(OutputFiles, TokensReplaceNoTextAndNoTokenizer) {
  fs::copy(kBert, place_.file("bert"));
  fs::create_directories(place_.file("texts/more"));
  place_.folder().write("texts/more/a.txt", "the whale");
  place_.folder().write("m.txt", "the white whale");
  fs::create_hard_link(place_.file("m.txt"), place_.file("linked.bin"));
  const Words tokenize = {"tokenize", "--tokenizer", "bert"};
  const std::vector<std::string> all = {"m.txt", "texts/more/a.txt", "bert/vocab.txt"};
  refuses(tokenize + Words{"m.txt", "--output", "./m.txt"}, "--output ./m.txt is also read", all);
  refuses(tokenize + Words{"m.txt", "--output", "linked.bin"}, "--output linked.bin is also read", all);
  refuses(tokenize + Words{"texts", "--output", "texts/more/a.txt"}, "is also read", all);
  refuses(tokenize + Words{"texts", "--output", "texts/more/new.txt"}, "lies in texts and would be read",
          all);
  refuses(tokenize + Words{"m.txt", "--output", "bert/vocab.txt"}, "is also read", all);
  refuses({"tokenize", "--tokenizer", "bert/vocab.txt", "m.txt", "--output", "bert/vocab.txt"},
          "is also read", all);
  for (const char* output : {"texts/new.bin", "texts/new.bin", "texts2.txt"})  // again, too
    EXPECT_EQ(place_.recollect(tokenize + Words{"texts", "--output", output}).status, 0) << output;
}

TEST_F(OutputFiles, GradientsReplaceNothingOfTheRun) {
  place_.folder().write("data.txt", std::string(4000, 'a'));
  const Words run = {"train", "c.yaml", "training.max_steps=1"};
  const auto dump = [](const std::string& file) { return Words{"debug.dump_gradients=" + file}; };
  refuses(run + dump("./c.yaml"), "debug.dump_gradients ./c.yaml is also read", {"c.yaml"});
  refuses(run + dump("data.txt") + Words{"data.format=text", "data.path=data.txt", "model.vocab_size=256"},
          "debug.dump_gradients data.txt is also read", {"data.txt"});
  for (const char* file : {"out/model.safetensors", "out/../out/metrics.jsonl", "out/.recollect.lock"})
    refuses(run + dump(file), "is also written by the run itself", {});
  EXPECT_FALSE(fs::exists(place_.file("out")));
  place_.folder().write("mine", "old");
  const Words keep = {"overwrite=false"};
  const Finished refused = place_.recollect(run + dump("mine") + keep);
  EXPECT_EQ(refused.status, 6) << refused.err;
  EXPECT_NE(refused.err.find("debug.dump_gradients mine exists"), std::string::npos) << refused.err;
  EXPECT_EQ(content("mine"), "old");
  EXPECT_EQ(place_.recollect(run + dump("out/g.safetensors") + keep).status, 0);
  EXPECT_EQ(place_.recollect(run + dump("out/g.safetensors") + Words{"--overwrite"}).status, 0);
}

TEST_F(OutputFiles, RatesReplaceRatesOnlyAndAreWritableBeforeAnyIsMeasured) {
  const Words calibrate = {"calibrate", "--seconds", "3000", "--out"};
  refuses(calibrate + Words{"c.yaml"}, "--out c.yaml: the file exists and is not a file of rates",
          {"c.yaml"});
  const Finished nowhere = place_.recollect(calibrate + Words{"nowhere/device.yaml"});
  EXPECT_EQ(nowhere.status, 6) << nowhere.out << nowhere.err;
  EXPECT_EQ(nowhere.out, "");
}

}  // namespace
}  // namespace recollect::test::output_files_test
