// `recollect generate` as its user meets it: from what a training has left, with any number of ranks, and what it
// says of mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <sstream>

#include "engine/io/json.h"
#include "launch/config/read.h"
#include "launch/generate/generator.h"
#include "launch/generate/options.h"
#include "launch/ranks/world.h"
#include "tests/launch/process.h"

namespace recollect::test::generate_test {
namespace {

using nlohmann::json;

const std::string kGoldens = RECOLLECT_SOURCE_DIR "/tests/golden/";

std::vector<json> objects(const std::string& lines) {
  std::vector<json> all;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    all.push_back(json::parse(lines.substr(at, end - at)));
    at = end + 1;
  }
  return all;
}

// A model of bytes, trained and saved once for all tests.
class Generate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    std::string text;
    for (int i = 0; i < 40; ++i) text += "The whale, the white whale! ";
    place_->folder().write("text.txt", text);
    const Finished trained = place_->train(model() + Words{"checkpoint.save_model=true"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete place_; }

  static Words model() { return {"model.vocab_size=256", "data.format=text", "data.path=text.txt"}; }
  static Finished generate(const Words& words) { return place_->recollect(Words{"generate"} + words); }
  static Finished generate_trained(const Words& words) { return generate(Words{"c.yaml"} + model() + words); }

  // The objects of a run that succeeds.
  static std::vector<json> made(const Finished& finished) {
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    return objects(finished.out);
  }
  static void refuses(int status, const Words& words, const std::string& says) {
    const Finished finished = generate_trained(words);
    EXPECT_EQ(finished.status, status) << says << "\n" << finished.out << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << says << "\n" << finished.err;
    EXPECT_EQ(finished.err.find("this is a bug"), std::string::npos) << finished.err;
    EXPECT_EQ(finished.out, "") << says;
  }

  static Workplace* place_;
};

Workplace* Generate::place_ = nullptr;

TEST_F(Generate, ContinuesWithWhatItsTrainingHasSaved) {
  const Words prompt{"--prompt", "The wh", "--max-new-tokens", "5"};
  const std::vector<json> all = made(generate_trained(prompt + Words{"--json"}));
  ASSERT_EQ(all.size(), 1u);
  const json& one = all.front();
  EXPECT_EQ(one.at("prompt"), "The wh");
  EXPECT_EQ(one.at("prompt_ids"), json({'T', 'h', 'e', ' ', 'w', 'h'}));
  EXPECT_EQ(one.at("ids").size(), 5u);
  EXPECT_EQ(one.at("ended"), "length");
  EXPECT_GT(one.at("seconds_to_first_token"), 0);
  EXPECT_GT(one.at("tokens_per_second"), 0);
  // Two layers' keys and values: 4 heads of 6 features of 10 tokens in fp64; the last new one is not read.
  EXPECT_EQ(one.at("cache_bytes").at("predicted"), 2 * 2 * 4 * 6 * 10 * 8);
  for (const char* bytes : {"cache_bytes", "arena_bytes"})
    EXPECT_EQ(one.at(bytes).at("predicted"), one.at(bytes).at("measured")) << bytes;

  const Finished plain = generate_trained(prompt);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(plain.out, one.at("text").get<std::string>() + "\n");
  const Words same{"device.backend=reference", "training.precision=fp64"};
  for (const Words& from :
       {Words{"out/config.resolved.yaml"}, Words{"--model", "out", "--tokenizer", "bytes"} + same,
        Words{"model.pretrained=out", "--tokenizer=bytes"} + same})
    EXPECT_EQ(made(generate(from + prompt + Words{"--json"})).at(0).at("ids"), one.at("ids")) << from[0];
}

TEST_F(Generate, AllowsAsManyTokensAsTheModelHasRoomFor) {
  EXPECT_EQ(made(generate_trained({"--prompt", "The", "--json"})).at(0).at("ids").size(), 13u);
  EXPECT_EQ(made(generate_trained({"--prompt", "The", "--max-new-tokens", "13", "--json"})).size(), 1u);
  refuses(3, {"--prompt", "The", "--max-new-tokens", "14", "--no-crop"},
          "3 tokens and 14 new ones are more than model.n_positions 16");
  refuses(3, {"--prompt", "The white whale!", "--no-crop", "--max-new-tokens", "1"},
          "16 tokens and 1 new ones");
}

// As nanoGPT crops: what the model says of the latest tokens alone, as many as it takes, whose places count from 0.
TEST_F(Generate, GoesOnWithTheLatestTokensThatTheModelTakes) {
  constexpr std::size_t kLongest = 16;
  for (const std::string prompt : {"The", "The white whale, the whale"}) {
    const Finished finished = generate_trained({"--prompt", prompt, "--max-new-tokens", "40", "--json"});
    ASSERT_EQ(finished.status, 0) << finished.err;
    EXPECT_NE(finished.err.find("each token beyond follows the latest 16; --no-crop refuses them"),
              std::string::npos)
        << finished.err;
    const json one = objects(finished.out).at(0);
    const std::vector<int32_t> ids = one.at("ids");
    std::vector<int32_t> sequence = one.at("prompt_ids");
    ASSERT_EQ(ids.size(), 40u);
    EXPECT_EQ(one.at("cache_bytes").at("measured"), 2 * 2 * 4 * 6 * kLongest * 8);
    Config config = read_config_text(
        "test.yaml", "data: {format: random}\n",
        {"device.backend=reference", "training.precision=fp64", "model.pretrained=" + place_->file("out")});
    std::unique_ptr<MpiEnvironment> mpi;
    run_ranks(config, mpi, [&](Communicator& world) {
      Config fitted = config;
      fit_to_ranks(fitted, world.size());
      Generator generator(fitted, world, {.capacity = kLongest});
      for (const int32_t id : ids) {
        generator.clear();
        generator.read(std::span(sequence).last(std::min(sequence.size(), kLongest)));
        const std::span<const double> logits = generator.logits();
        ASSERT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), id) << sequence.size();
        sequence.push_back(id);
      }
    });
  }
}

// Beside a snapshot, and beside the model of the run before: the command that the message names works.
TEST_F(Generate, SaysWhatMakesAModelOfWhatARunHasLeft) {
  const Words unsaved = Words{"c.yaml"} + model() + Words{"output_dir=unsaved"};
  ASSERT_EQ(place_->recollect(Words{"train"} + unsaved + Words{"snapshot.every_steps=2"}).status, 0);
  const Finished refused = generate(unsaved + Words{"--prompt", "The"});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("checkpoint.save_model=true"), std::string::npos) << refused.err;
  const std::size_t begin = refused.err.find("`recollect ") + 11, end = refused.err.find('`', begin);
  ASSERT_NE(end, std::string::npos) << refused.err;
  std::istringstream command(refused.err.substr(begin, end - begin));
  const Finished converted = place_->recollect(
      Words{std::istream_iterator<std::string>(command), std::istream_iterator<std::string>()});
  ASSERT_EQ(converted.status, 0) << converted.err;
  const Words with{"model.pretrained=unsaved/model", "--prompt", "The", "--json"};
  EXPECT_EQ(made(generate(unsaved + with)).size(), 1u);
  std::filesystem::remove_all(place_->file("unsaved/snapshots"));
  std::filesystem::create_directories(place_->file("unsaved/earlier"));
  std::filesystem::rename(place_->file("unsaved/model"), place_->file("unsaved/earlier/10"));
  EXPECT_NE(generate(unsaved + Words{"--prompt", "The"}).err.find("model.pretrained=unsaved/earlier/10;"),
            std::string::npos);
}

TEST_F(Generate, EndsAtAnEndOfText) {
  const Words words{"--prompt", "whale", "--json", "--max-new-tokens", "6"};
  const json ids = made(generate_trained(words)).at(0).at("ids");
  place_->folder().write("out/generation_config.json", json{{"eos_token_id", {ids.at(0), 255}}}.dump());
  const json ended = made(generate_trained(words)).at(0);
  std::filesystem::remove(place_->file("out/generation_config.json"));
  EXPECT_EQ(ended.at("ids"), json({ids.at(0)}));
  EXPECT_EQ(ended.at("ended"), "end_of_text");
  EXPECT_EQ(ended.at("tokens_per_second"), nullptr);
}

TEST_F(Generate, ReadsPromptsFromFilesAndPipes) {
  place_->folder().write("prompts.txt", "The\r\nwhite\n");
  const std::vector<json> all = made(generate_trained({"--prompts", "prompts.txt", "--json"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("prompt"), "The");
  EXPECT_EQ(all[1].at("prompt"), "white");
  EXPECT_EQ(made(generate_trained({"--prompt", "white", "--json"})).at(0).at("ids"), all[1].at("ids"));
  const std::string command = "printf 'The\\nwhite' | " + recollect_binary() +
                              " generate out/config.resolved.yaml --prompts - --json";
  Process piped({"bash", "-c", command}, place_->folder().path());
  const std::vector<json> again = made(piped.wait(Workplace::kBound));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].at("ids"), all[1].at("ids"));
}

TEST_F(Generate, DrawsWhatTheSeedSays) {
  const auto drawn = [](const Words& words) {
    return made(generate_trained(Words{"--prompt", "The", "--json"} + words)).at(0).at("ids");
  };
  EXPECT_EQ(drawn({"--temperature", "3"}), drawn({"--temperature", "3", "--seed", "0"}));
  EXPECT_NE(drawn({"--temperature", "3"}), drawn({"--temperature", "3", "--seed", "1"}));
  EXPECT_EQ(drawn({"--top-k", "1", "--seed", "9"}), drawn({}));
  EXPECT_EQ(drawn({"--top-p", "0"}), drawn({}));
}

TEST_F(Generate, EveryRankIsATensorRank) {
  const Words words =
      Words{"c.yaml"} + model() + Words{"--prompt", "The wh", "--max-new-tokens", "5", "--json"};
  const json alone = made(generate(words)).at(0);
  const auto expect_same = [&](const Finished& finished) {
    EXPECT_EQ(finished.status, 0) << finished.err;
    const std::string rank = "[rank0]: ";  // of recollect run
    const std::vector<json> all =
        objects(finished.out.substr(finished.out.starts_with(rank) ? rank.size() : 0));
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].at("ids"), alone.at("ids"));
    EXPECT_EQ(all[0].at("cache_bytes").at("measured").get<int64_t>() * 2,
              alone.at("cache_bytes").at("predicted").get<int64_t>());
  };
  expect_same(
      generate(words + Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}));
  expect_same(place_->recollect(Words{"run", "--nproc-per-node", "2", "generate"} + words));
#ifndef __SANITIZE_THREAD__
  Process mpi(mpirun() + Words{"-np", "2", recollect_binary(), "generate"} + words, place_->folder().path());
  expect_same(mpi.wait(Workplace::kBound));
#endif
}

TEST_F(Generate, TakesATokenizersFiles) {
  const Words words{"model.vocab_size=421", "output_dir=of-tokens"};
  const Finished trained = place_->train(words + Words{"checkpoint.save_model=true"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Words tokenizer{"--tokenizer", kGoldens + "tokenizer/gpt2"};
  const json one = made(generate(Words{"c.yaml", "--prompt", "a the", "--json"} + words + tokenizer)).at(0);
  EXPECT_LT(one.at("prompt_ids").size(), 5u);
  EXPECT_EQ(one.at("prompt_ids").size() + one.at("ids").size(), 16u);
  const std::string refused = generate(Words{"c.yaml", "--prompt", "a"} + words).err;
  EXPECT_NE(refused.find("holds no tokenizer: it was trained with data.format random"), std::string::npos)
      << refused;
}

TEST_F(Generate, MistakesAreNamed) {
  place_->folder().write("bad.txt", "fine\nab\xff\n");
  place_->folder().write("blank.txt", "fine\n\nfine\n");
  const Words prompt{"--prompt", "The"};
  refuses(2, {}, "one of --prompt TEXT and --prompts FILE");
  refuses(2, prompt + Words{"--prompts", "bad.txt"}, "one of --prompt TEXT and --prompts FILE");
  refuses(2, prompt + Words{"--max-new-tokens", "0"}, "--max-new-tokens 0");
  refuses(2, prompt + Words{"--max-new-tokens", "many"}, "max-new-tokens");
  refuses(2, prompt + Words{"--temperature", "0"}, "it is above 0");
  refuses(2, prompt + Words{"--temperature", "nan"}, "temperature");
  refuses(2, prompt + Words{"--top-k", "-1"}, "--top-k -1");
  refuses(2, prompt + Words{"--top-p", "1.5"}, "--top-p 1.5");
  refuses(2, prompt + Words{"--seed", "1"}, "--seed has no effect");
  refuses(2, prompt + Words{"--fast"}, "--fast");
  refuses(2, prompt + Words{"model.n_head=5"}, "model.n_head");
  refuses(2, prompt + Words{"output_dir=nowhere"}, "nowhere has no model.safetensors");
  refuses(3, {"--prompts", "bad.txt"}, "bad.txt:2: byte 2 is not UTF-8");
  refuses(3, {"--prompts", "blank.txt"}, "blank.txt:2: the prompt is empty");
  refuses(3, {"--prompts", "nowhere.txt"}, "nowhere.txt");
  refuses(3, prompt + Words{"--tokenizer", kGoldens + "tokenizer/gpt2"},
          "has 421 ids, model.vocab_size is 256");
  refuses(4, prompt + Words{"device.memory_limit=10000"}, "--max-new-tokens have a smaller cache");
  const Finished bert =
      generate({"--model", kGoldens + "families/bert_masked_lm", "task=masked_lm", "--prompt", "a"});
  EXPECT_EQ(bert.status, 2);
  EXPECT_NE(bert.err.find("only causal_lm continues a text"), std::string::npos) << bert.err;
  const Finished nothing = generate({"--prompt", "a"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("generate needs a configuration file, or --model"), std::string::npos);
}

}  // namespace
}  // namespace recollect::test::generate_test
