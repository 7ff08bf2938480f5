// Language models trained on texts, with a tokenizer named in the configuration: as on a token file of them; and what
// stands beside the model that is saved.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/data/tokenizer/tokenizer.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::text_training_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kTokenizers = RECOLLECT_SOURCE_DIR "/tests/golden/tokenizer/";
const std::string kGpt2 = "data.tokenizer=" + kTokenizers + "gpt2";
const Words kQuick = {"memory_report.at=[]", "profiling.step=0", "training.max_steps=3",
                      "model.vocab_size=500"};

class TextTraining : public ::testing::Test {
 protected:
  TextTraining() {
    std::string text, lines;
    for (int i = 0; i < 60; ++i) {
      const std::string line = "The whale sails, number " + std::to_string(i * 7919) + ".";
      text += line + "\n";
      lines += "{\"text\": \"" + line + "\", \"source\": [1, 2]}\n";
    }
    place_.folder().write("texts/a.txt", text);
    place_.folder().write("texts/b.txt", "And so on.");
    place_.folder().write("lines.jsonl", lines);
  }
  std::vector<double> losses(const std::string& output, const Words& words) const {
    const Finished finished = place_.train(kQuick + words + Words{"output_dir=" + output});
    EXPECT_EQ(finished.status, 0) << finished.err;
    said_ = finished.out;
    std::vector<double> losses;
    for (const json& line : place_.metrics(output))
      losses.push_back(line.value("loss", line.value("eval_loss", 0.0)));
    return losses;
  }
  std::string read(const std::string& name) const { return TemporaryFolder::read(place_.file(name)); }

  const Workplace place_;
  mutable std::string said_;
};

TEST_F(TextTraining, IsThatOfATokenFile) {
  const Finished tokenized =
      place_.recollect({"tokenize", "--tokenizer", kTokenizers + "gpt2", "--output", "t.bin", "texts"});
  ASSERT_EQ(tokenized.status, 0) << tokenized.err;
  const Words saved = {"checkpoint.save_model=true", kGpt2};
  const auto text = losses("text", Words{"data.format=text", "data.path=texts", "evaluation.path=texts",
                                         "evaluation.every_steps=3"} +
                                       saved);
  const auto file = losses("file", Words{"data.format=tokens", "data.path=t.bin", "evaluation.path=t.bin",
                                         "evaluation.every_steps=3"} +
                                       saved);
  ASSERT_EQ(text.size(), 4u);
  EXPECT_EQ(text, file);
  // Either way the tokenizer is beside the model, which continues a text as it is.
  for (const std::string output : {"text", "file"}) {
    EXPECT_EQ(read(output + "/tokenizer.json"), TemporaryFolder::read(kTokenizers + "gpt2/tokenizer.json"));
    const Finished made =
        place_.recollect({"generate", "--model", output, "--prompt", "The whale", "--max-new-tokens", "2"});
    EXPECT_EQ(made.status, 0) << made.err;
  }
  const Finished many =
      place_.train(kQuick + saved +
                   Words{"data.format=tokens", "data.path=t.bin", "model.vocab_size=300", "output_dir=many"});
  EXPECT_EQ(many.status, 3);
  EXPECT_NE(many.err.find("and model.vocab_size is 300"), std::string::npos) << many.err;
  EXPECT_FALSE(fs::exists(place_.file("many")));
}

TEST_F(TextTraining, PacksLines) {
  const Words lines = {"data.format=jsonl", "data.path=lines.jsonl", kGpt2, "data.sequence_length=16"};
  EXPECT_EQ(losses("none", lines).size(), 3u);
  EXPECT_NE(said_.find("data: 60 samples"), std::string::npos) << said_;
  EXPECT_EQ(losses("within", lines + Words{"data.packing=within"}).size(), 3u);
  EXPECT_NE(said_.find("packing: 60 documents in "), std::string::npos) << said_;
  EXPECT_EQ(losses("across", lines + Words{"data.packing=across"}).size(), 3u);
}

TEST_F(TextTraining, OfAModelThatWasThereTakesItsFilesAlong) {
  ASSERT_EQ(losses("start", {"checkpoint.save_model=true"}).size(), 3u);
  const std::string generation = "{\"eos_token_id\": 5, \"max_new_tokens\": 7}\n";
  place_.folder().write("start/generation_config.json", generation);
  for (const char* name : {"vocab.json", "merges.txt"})
    fs::copy_file(kTokenizers + "gpt2/" + name, place_.file("start/" + std::string(name)));
  losses("tuned", {"model.pretrained=start", "checkpoint.save_model=true", "checkpoint.save_best_model=true",
                   "evaluation.every_steps=1", "evaluation.batches=1"});
  for (const std::string folder : {"tuned", "tuned/best_model"}) {
    EXPECT_EQ(read(folder + "/generation_config.json"), generation);
    EXPECT_EQ(read(folder + "/vocab.json"), read("start/vocab.json"));
    EXPECT_TRUE(fs::exists(place_.file(folder + "/model.safetensors")));
  }
}

// A folder that save_pretrained might have left: ids of special tokens, and the files of any kind of tokenizer.
TEST_F(TextTraining, SavesWhatTransformersLooksFor) {
  const TemporaryFolder& folder = place_.folder();
  const auto copied = [&](const std::string& to, const char* name) {
    folder.write(to + "/" + name, TemporaryFolder::read(kTokenizers + "gpt2/" + name));
  };
  copied("whole", "tokenizer.json");
  for (const char* name : {"vocab.json", "merges.txt"}) copied("parts", name), copied("told", name);
  folder.write("told/tokenizer_config.json",
               R"({"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "pad_token": "<p>"})");
  folder.write("told/added_tokens.json", R"({"<s>": 420, "<p>": 421})");
  folder.write("told/chat_template.jinja", "{{ messages }}");
  folder.write("told/additional_chat_templates/short.jinja", "{{ tools }}");
  folder.write("llama.yaml", R"(
model: {type: llama, vocab_size: 500, hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 2,
        max_position_embeddings: 16}
training: {micro_batch_size: 4, max_steps: 1}
data: {format: jsonl, path: lines.jsonl}
checkpoint: {save_model: true}
memory_report: {at: []}
profiling: {step: 0}
)");
  struct Case {
    std::string tokenizer;
    json begin, end, pad;  // ids
    std::vector<std::string> files;
    const char* written_class;
  };
  const Case cases[] = {
      {"whole", 0, 0, nullptr, {"tokenizer.json"}, "PreTrainedTokenizerFast"},
      {"parts", 0, 0, nullptr, {"vocab.json", "merges.txt", "tokenizer.json"}, "GPT2Tokenizer"},
      {"told",
       420,
       0,
       421,
       {"vocab.json", "merges.txt", "tokenizer.json", "added_tokens.json", "chat_template.jinja",
        "additional_chat_templates/short.jinja"},
       "GPT2Tokenizer"}};
  for (const Case& one : cases) {
    const std::string out = "saved-" + one.tokenizer;
    const Finished finished =
        place_.recollect({"train", "llama.yaml", "data.tokenizer=" + one.tokenizer, "output_dir=" + out});
    ASSERT_EQ(finished.status, 0) << finished.err;
    const json config = json::parse(read(out + "/config.json")),
               generation = json::parse(read(out + "/generation_config.json")),
               tokenizer = json::parse(read(out + "/tokenizer_config.json"));
    EXPECT_EQ(config.at("bos_token_id"), one.begin) << one.tokenizer;
    EXPECT_EQ(config.at("eos_token_id"), one.end) << one.tokenizer;
    EXPECT_EQ(config.at("pad_token_id"), nullptr) << "its row would be frozen";
    EXPECT_EQ(generation.at("eos_token_id"), one.end) << one.tokenizer;
    EXPECT_EQ(generation.value("pad_token_id", json()), one.pad) << one.tokenizer;
    EXPECT_EQ(tokenizer.at("tokenizer_class"), one.written_class) << one.tokenizer;
    for (const std::string& file : one.files)
      EXPECT_TRUE(fs::exists(place_.file(out + "/" + file))) << one.tokenizer << ": " << file;
    // The tokenizer of the saved folder is the one that was trained with.
    EncodingMemory memory;
    std::vector<uint32_t> before, after;
    const std::string text = "The whale<|endoftext|><s>it's<p>";
    load_tokenizer(place_.file(one.tokenizer))->encode(text, memory, before);
    EncodingMemory again;
    load_tokenizer(place_.file(out))->encode(text, again, after);
    EXPECT_EQ(after, before) << one.tokenizer;
  }
  // Nobody knows an end: Transformers must not take its own.
  const Finished bytes = place_.recollect({"train", "llama.yaml", "data.format=text", "data.path=texts",
                                           "data.tokenizer=bytes", "output_dir=bytes"});
  ASSERT_EQ(bytes.status, 0) << bytes.err;
  EXPECT_EQ(json::parse(read("bytes/config.json")).at("eos_token_id"), nullptr);
  EXPECT_FALSE(json::parse(read("bytes/generation_config.json")).contains("eos_token_id"));
}

// Of a model that fills in what is masked: the tokenizer has the mask token, and those that are never masked.
TEST_F(TextTraining, MasksAsTheTokenizerSays) {
  place_.folder().write("bert.yaml", R"(
task: masked_lm
model: {type: bert, vocab_size: 1000, max_position_embeddings: 16, hidden_size: 8, num_hidden_layers: 1,
        num_attention_heads: 2, intermediate_size: 16}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 4, max_steps: 3}
data: {format: jsonl, path: lines.jsonl, sequence_length: 16}
memory_report: {at: []}
profiling: {step: 0}
logging: {progress: off}
)");
  const auto run = [&](const std::string& output, const Words& words) {
    const Finished finished = place_.recollect(Words{"train", "bert.yaml", "output_dir=" + output} + words);
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::vector<double> losses;
    for (const json& line : place_.metrics(output)) losses.push_back(line.at("loss"));
    return losses;
  };
  const std::string path = kTokenizers + "bert", tokenizer = "data.tokenizer=" + path;
  const SpecialIds special = load_tokenizer(path)->special();
  const std::set<uint32_t> all{*special.cls, *special.sep, *special.pad, *special.mask, *special.unk};
  const std::string mask = fmt::format("data.mask_token={}", *special.mask),
                    never = fmt::format("data.special_tokens=[{}]", fmt::join(all, ", "));
  const std::vector<double> taken = run("taken", {tokenizer});
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken, run("given", {tokenizer, mask, never}));
  EXPECT_EQ(taken, run("half", {tokenizer, mask}));
  EXPECT_NE(taken, run("none", {tokenizer, "data.special_tokens=[]", "data.mask_token=7"}));
  const std::string resolved = read("taken/config.resolved.yaml");
  EXPECT_NE(resolved.find(fmt::format("  mask_token: {}\n", *special.mask)), std::string::npos) << resolved;
  EXPECT_NE(resolved.find(fmt::format("  special_tokens: [\"{}\"]\n", fmt::join(all, "\", \""))),
            std::string::npos)
      << resolved;
  const Finished again = place_.recollect({"train", "taken/config.resolved.yaml", "output_dir=again"});
  EXPECT_EQ(again.status, 0) << again.err;

  const Finished without = place_.recollect({"train", "bert.yaml", kGpt2});
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("data.mask_token is missing, and data.tokenizer " + kTokenizers +
                             "gpt2 has no mask token"),
            std::string::npos)
      << without.err;
}

TEST_F(TextTraining, MixesSetsByTheirWeights) {
  place_.folder().write("more.jsonl", "{\"text\": \"Nothing but this.\"}\n{\"text\": \"And this.\"}\n");
  const Words mixed = {"data.format=jsonl", "data.path=[lines.jsonl, more.jsonl]", "data.weights=[2, 1]",
                       kGpt2, "data.sequence_length=16"};
  const auto one = losses("one", mixed + Words{"snapshot.every_steps=1", "snapshot.keep=9"});
  EXPECT_NE(said_.find("mixture: 66.7 % lines.jsonl, 1 times an epoch; 33.3 % more.jsonl, 15 times an epoch"),
            std::string::npos)
      << said_;
  EXPECT_NE(said_.find("data: 90 samples"), std::string::npos) << said_;
  const Words ranks = {"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2"};
  const auto two = losses("two", mixed + ranks);
  ASSERT_EQ(two.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(one.at(i), two.at(i), 1e-12) << "the same samples in any layout";
  const auto rest =
      losses("rest", mixed + Words{"snapshot.every_steps=1", "resume=one/snapshots/step-00000001"});
  EXPECT_EQ(rest, std::vector<double>(one.begin() + 1, one.end()));
}

TEST(TextKeys, OfMixturesFitThePaths) {
  const auto data = [](const std::string& keys) { return refusal("data: {" + keys + "}\n"); };
  EXPECT_EQ(data("path: [a, b], weights: [0.7, 0.3]"), "accepted");
  EXPECT_EQ(data("path: [a, b], weights: [0.7]"),
            "c.yaml:1:31: data.weights has 1, and data.path 2: there is one for each");
  EXPECT_EQ(data("path: [a, b], weights: [1, -3]"),
            "c.yaml:1:31: data.weights: each of 1, -3 must be a number above 0");
  EXPECT_EQ(data("path: [a, b], weights: [1, 3], shuffle: false"),
            "c.yaml:1:31: data.weights: with data.shuffle false the sets would follow each other");
  EXPECT_EQ(data("path: a, weights: [3]"),
            "c.yaml:1:26: data.weights has no effect with data.path [a]: there is one set");
}

TEST(TextKeys, AreThoseOfLanguageModels) {
  const auto data = [](const std::string& keys, const std::string& task = "") {
    return refusal(task + "data: {path: x, tokenizer: t, " + keys + "}\n");
  };
  EXPECT_EQ(data("format: text"), "accepted");
  EXPECT_EQ(data("format: jsonl, columns: {text: story}, packing: within"), "accepted");
  EXPECT_EQ(
      data("format: text, columns: {text: story}"),
      "c.yaml:1:61: data.columns.text has no effect with data.format text: its files are one stream of text");
  EXPECT_EQ(
      data("format: jsonl, columns: {label: l}"),
      "c.yaml:1:63: data.columns.label has no effect with task causal_lm: a sample is one text without a "
      "label");
  EXPECT_EQ(
      data("format: jsonl, packing: across, truncation: none"),
      "c.yaml:1:75: data.truncation has no effect with data.packing across: lines are one stream, which is "
      "cut into samples");
  EXPECT_EQ(data("format: text, padding: longest"),
            "c.yaml:1:54: data.padding has no effect with data.format text: all its samples are of "
            "data.sequence_length");
  const std::string masked = "task: masked_lm\nmodel: {type: bert}\n";
  EXPECT_EQ(data("format: jsonl", masked), "accepted") << "the tokenizer has one";
  EXPECT_EQ(data("format: jsonl, mask_probability: 0.3, special_tokens: [1]", masked), "accepted");
  EXPECT_EQ(data("format: tokens, seed: 7, shuffle: false", masked), "accepted");
  EXPECT_EQ(data("format: jsonl, mask_token: 103", masked), "accepted");
  EXPECT_EQ(data("format: csv").substr(0, 60),
            "c.yaml:1:39: data.format csv holds texts for task sequence_c");
}

}  // namespace
}  // namespace recollect::test::text_training_test
