// `recollect snapshot`: what it makes of a snapshot is the same state, or the same model, bit for bit, and nothing that
// was there is lost.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>

#include "engine/io/safetensors.h"
#include "launch/config/read.h"
#include "launch/snapshot/convert.h"
#include "launch/train/snapshot_lock.h"
#include "tests/launch/python.h"
#include "tests/launch/snapshot_command.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::snapshot_command_test {
namespace {

namespace fs = std::filesystem;

// Four tensor ranks hold each key/value head twice, and queries apart from them.
const char* const kLlama = R"(
model: {type: llama, vocab_size: 61, max_position_embeddings: 16, hidden_size: 24, num_hidden_layers: 2,
        num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 40}
data: {format: random, sequence_length: 8}
logging: {progress: off}
output_dir: out
overwrite: true
resume: auto
)";
const char* const kBert = R"(
task: masked_lm
model: {type: bert, vocab_size: 61, max_position_embeddings: 16, hidden_size: 24, num_hidden_layers: 2,
        num_attention_heads: 4, intermediate_size: 40}
data: {format: random, sequence_length: 8, mask_token: 3}
logging: {progress: off}
output_dir: out
overwrite: true
resume: auto
)";

struct Family {
  const char* name;
  const char* yaml;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::map<std::string, std::string> content(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = TemporaryFolder::read(entry.path());
  return files;
}

class SnapshotFamilies : public testing::TestWithParam<Family> {};

// There and back, and to the model: bytes.
TEST_P(SnapshotFamilies, AreTheSameInEveryLayout) {
  const SnapshotCommand command(GetParam().yaml);
  command.train(ranks(2, 2));
  command.convert("out/snapshots/step-00000004", "one", to_layout(1, 1));
  command.convert("one", "four", to_layout(4, 1));
  command.convert("four/step-00000004", "back/step-00000004/", to_layout(2, 2));
  EXPECT_EQ(content(command.step(4, "one")).size(), 2u);
  EXPECT_EQ(content(command.step(4, "four")).size(), 5u);
  EXPECT_EQ(content(command.step(4, "back")), content(command.step(4)));
  for (const char* source : {"out/snapshots", "four"}) {
    command.convert(source, std::string(source) + ".hf", {"--to", "hf"});
    for (const char* name : {"model.safetensors", "config.json"})
      EXPECT_TRUE(TemporaryFolder::read(command.file(std::string(source) + ".hf/" + name)) ==
                  TemporaryFolder::read(command.file(std::string("out/") + name)))
          << source << " " << name;
  }
  EXPECT_EQ(times_in(command.run({"verify", "one", "four", "out/snapshots"}), ": whole, "), 4);
}

// What four ranks save of two key/value heads, one goes on from, and the other way round.
TEST_P(SnapshotFamilies, GoOnInAnotherLayout) {
  const SnapshotCommand command(GetParam().yaml);
  command.train(ranks(4, 1) + Words{"training.max_steps=2"});
  command.convert("out/snapshots", "two", to_layout(2, 2));
  for (const char* source : {"out/snapshots/step-00000002", "two"})
    command.train(ranks(1, 1) + Words{std::string("resume=") + source, "snapshot.every_steps=0",
                                      "checkpoint.save_model=true",
                                      "output_dir=" + std::string(source == std::string("two") ? "b" : "a")});
  EXPECT_TRUE(TemporaryFolder::read(command.file("a/model.safetensors")) ==
              TemporaryFolder::read(command.file("b/model.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(All, SnapshotFamilies,
                         testing::Values(Family{"Gpt", kGpt}, Family{"Llama", kLlama}, Family{"Bert", kBert}),
                         [](const auto& info) { return info.param.name; });

// A model that is converted is what a run begins with; heads that it lacks are drawn alike.
TEST(SnapshotConvert, ARunBeginsWithAModel) {
  for (const auto& [yaml, more] :
       {std::pair(kGpt, Words{}), std::pair(kBert, Words{"task=sequence_classification", "model.num_labels=3",
                                                         "data.mask_token=-1"})}) {
    const SnapshotCommand command(yaml);
    command.train(Words{"training.max_steps=1", "snapshot.every_steps=0", "output_dir=model"});
    const Words run = with_defaults(more + Words{"model.pretrained=model"});
    std::string text = TemporaryFolder::read(command.file("c.yaml"));
    const std::string from = text.find("type: gpt2") != std::string::npos ? "initializer_range: 0.2" : "";
    if (!from.empty()) text.replace(text.find(", " + from), from.size() + 2, "");
    command.place().folder().write("c.yaml", text);
    command.convert("model", "begun", Words{"--config", "c.yaml", "--tensor-parallel-size", "2"} + run);
    EXPECT_EQ(content(command.step(0, "begun")).size(), 3u);
    for (const Words& begins : {Words{"output_dir=a"}, Words{"output_dir=b", "resume=begun"}}) {
      const Finished trained = command.place().train(run + begins);
      ASSERT_EQ(trained.status, 0) << trained.err;
    }
    EXPECT_TRUE(TemporaryFolder::read(command.file("a/model.safetensors")) ==
                TemporaryFolder::read(command.file("b/model.safetensors")));
  }
}

TEST(SnapshotConvert, RoundsAsItIsAsked) {
  const SnapshotCommand command;
  command.train({"training.max_steps=2"});
  command.convert("out/snapshots", "full", {"--to", "hf"});
  const SafetensorsSet full(command.file("full"));
  for (const auto& [name, dtype] : {std::pair("bf16", DType::kBF16), std::pair("fp16", DType::kF16)}) {
    command.convert("out/snapshots", name, {"--to", "hf", "--dtype", name});
    const SafetensorsSet half(command.file(name));
    ASSERT_EQ(half.names(), full.names());
    int64_t wrong = 0;
    for (const std::string& tensor : full.names()) {
      const auto elements = static_cast<std::size_t>(full.at(tensor).elements());
      std::vector<float> exact(elements), rounded(elements);
      full.read_as(tensor, exact.data());
      half.read_as(tensor, rounded.data());
      EXPECT_EQ(half.at(tensor).dtype, dtype);
      for (std::size_t i = 0; i < elements; ++i)
        wrong += rounded[i] != (dtype == DType::kBF16 ? float(bf16(exact[i])) : float(f16(exact[i])));
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_NE(TemporaryFolder::read(command.file(std::string(name) + "/config.json"))
                  .find(dtype == DType::kBF16 ? "\"bfloat16\"" : "\"float16\""),
              std::string::npos);
  }
}

TEST(SnapshotConvert, RefusesWhatATypeCannotHold) {
  const SnapshotCommand command;
  command.train({"training.max_steps=1", "optimizer.learning_rate=1e5"});
  const std::string said = command.convert("out/snapshots", "half", {"--to", "hf", "--dtype", "fp16"}, 3);
  EXPECT_NE(said.find("is too large for f16"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(command.file("half")));
  EXPECT_FALSE(fs::exists(command.file("half.converting")));
}

TEST(SnapshotConvert, ReplacesOnlyWhatItIsAskedTo) {
  const SnapshotCommand command;
  command.train({});
  const auto before = content(command.step(4));
  for (const Words& words : {to_layout(2, 1), Words{"--to", "hf"}}) {
    const bool model = words[1] == "hf";
    const std::string name = model ? "hf" : "many";
    const std::string place = model ? command.file(name) : command.step(4, name);
    command.convert("out/snapshots", name, words);
    const auto made = content(place);
    command.convert("out/snapshots/step-00000002", name, Words{"--to", "hf"}, 6);  // for both: it is there
    EXPECT_NE(command.convert("out/snapshots", name, words, 6).find("--overwrite"), std::string::npos);
    EXPECT_EQ(content(place), made);
    command.convert("out/snapshots", name, words + Words{"--overwrite"});
    EXPECT_EQ(content(place), made);
  }
  command.convert("out/snapshots", "out", {"--to", "hf", "--overwrite"}, 6);  // it holds more than a model
  EXPECT_TRUE(fs::exists(command.file("out/metrics.jsonl")));
  command.convert("out/snapshots", "many/step-00000005", to_layout(2, 1), 2);
  command.convert("out/snapshots", "out/snapshots",
                  to_layout(1, 1) + Words{"--overwrite"});  // in its own place
  EXPECT_EQ(content(command.step(4)), before);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(command.file("out/snapshots"))) ++entries;
  EXPECT_EQ(entries, 2u);
}

TEST(SnapshotConvert, LeavesTheFolderOfARunAlone) {
  const SnapshotCommand command;
  command.train({"training.max_steps=2"});
  {
    const Descriptor run = lock_snapshots(command.file("out/snapshots"));
    const Words there = to_layout(2, 1) + Words{"--overwrite"};
    const std::string said = command.convert("out/snapshots", "out/snapshots", there, 6);
    EXPECT_NE(said.find("another run saves its snapshots in out/snapshots"), std::string::npos) << said;
    command.convert("out/model.safetensors", "out/snapshots/step-00000000",
                    with_defaults({"--config", "c.yaml", "model.pretrained=out"}), 6);
    command.run({"verify", "out/snapshots"});
    command.convert("out/snapshots", "elsewhere", to_layout(2, 1));
  }
  command.convert("out/snapshots", "out/snapshots", to_layout(2, 1) + Words{"--overwrite"});
}

TEST(SnapshotInspect, SaysWhatIsThere) {
  const SnapshotCommand command;
  command.train(ranks(2, 2));
  const std::string text = command.run({"inspect", "out/snapshots/step-00000004"});
  for (const char* part :
       {"layout (tensor x data)      2 x 2", "type: gpt2", "optimizer.name              adamw",
        "wte.weight/exp_avg ", "F32  [61, 24]", "4 files", "84 tensors"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  const auto one = nlohmann::json::parse(command.run({"inspect", "out/snapshots/step-00000004", "--json"}));
  const auto& snapshot = one.at("snapshots").at(0);
  EXPECT_EQ(snapshot.at("step"), 4);
  EXPECT_EQ(snapshot.at("samples"), 16);
  EXPECT_EQ(snapshot.at("tensors").size(), 84u);
  EXPECT_EQ(snapshot.at("run").at("training.precision"), "fp32");
  uint64_t bytes = 0;
  for (const auto& file : snapshot.at("files")) bytes += file.at("bytes").get<uint64_t>();
  EXPECT_EQ(snapshot.at("bytes"), bytes);
  fs::remove(command.step(2) + "/rank-00003.safetensors");
  const std::string table = command.run({"inspect", "out/snapshots"});
  EXPECT_EQ(times_in(table, "damaged: "), 1) << table;
  EXPECT_NE(table.find("rank-00003.safetensors: No such file"), std::string::npos) << table;
  command.run({"inspect", "out/snapshots/step-00000002"}, 3);
  command.run({"inspect", "nowhere"}, 3);
  command.run({"verify", "out"}, 3);
}

TEST(SnapshotWords, ThatMeanNothingAreRefused) {
  const SnapshotCommand command;
  for (const Words& words : {Words{}, Words{"look"}, Words{"inspect"}, Words{"verify"}, Words{"convert", "a"},
                             Words{"convert", "a", "b"}, Words{"convert", "a", "b", "--to", "onnx"},
                             Words{"convert", "a", "b", "--to", "hf", "--dtype", "int8"},
                             Words{"convert", "a", "b", "--to", "hf", "--tensor-parallel-size", "2"},
                             Words{"convert", "a", "b", "--to", "snapshot", "--dtype", "fp16"},
                             Words{"convert", "a", "b", "--to", "snapshot", "--tensor-parallel-size", "-2"},
                             Words{"convert", "a", "b", "--to", "hf", "model.n_head=2"}})
    command.run(words, 2);
  command.train({});
  EXPECT_NE(
      command.convert("out/snapshots", "b", to_layout(3, 1), 2).find("it does not divide model.n_head 4"),
      std::string::npos);
}

// The configuration names a model's folder that has gone: what the state needs is in the configuration itself.
TEST(SnapshotConvert, NeedsNothingButTheSnapshot) {
  const SnapshotCommand command;
  command.train(Words{"training.max_steps=1", "snapshot.every_steps=0", "output_dir=model"});
  std::string text = TemporaryFolder::read(command.file("c.yaml"));
  text.replace(text.find(", initializer_range: 0.2"), 24, "");
  command.place().folder().write("c.yaml", text);
  command.train({"model.pretrained=model"});
  fs::rename(command.file("model"), command.file("away"));
  command.convert("out/snapshots", "one", to_layout(2, 1));
  EXPECT_NE(command.convert("out/snapshots", "hf", {"--to", "hf"}).find("is not here"), std::string::npos);
  EXPECT_TRUE(TemporaryFolder::read(command.file("hf/model.safetensors")) ==
              TemporaryFolder::read(command.file("out/model.safetensors")));
}

// The program that docs/snapshots.md shows, on parts that are rows, columns and blocks of both.
TEST(SnapshotFormat, IsReadByThePythonOfItsPage) {
  const std::string python = python_with("safetensors, numpy");
  if (python.empty()) GTEST_SKIP() << "no Python here has safetensors and numpy";
  const std::string page = TemporaryFolder::read(RECOLLECT_SOURCE_DIR "/docs/snapshots.md"),
                    fence = "```python\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const SnapshotCommand command;
  command.train(ranks(2, 1));
  command.place().folder().write(
      "read.py", page.substr(begin, page.find("```", begin) - begin) +
                     "from safetensors.numpy import load_file\n"
                     "model = load_file('out/model.safetensors')\n"
                     "for name, value in model.items():\n"
                     "    mine = read('out/snapshots/step-00000004', name.removeprefix('transformer.'))\n"
                     "    turned = '.c_' in name and name.endswith('weight')\n"
                     "    assert (mine == (value.T if turned else value)).all(), name\n"
                     "print(len(model))\n");
  const Finished read = Process({python, "read.py"}, command.place().folder().path()).wait(Workplace::kBound);
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(read.out, "28\n");
}

int64_t bytes_of_status(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return std::strtoll(line.c_str() + std::string_view(key).size() + 1, nullptr, 10) << 10;
  return 0;
}

// How far memory rises above what was there before.
template <typename Work>
int64_t peak_of(const Work& work) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak so far is forgotten
  const int64_t before = bytes_of_status("VmRSS");
  work();
  return bytes_of_status("VmHWM") - before;
}

TEST(SnapshotConvert, TakesNoMoreMemoryThanOneTensor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is in the way";
#endif
  std::vector<char> touched(64 << 20, 1);
  if (peak_of([&] { std::vector<char>(touched.begin(), touched.end()).swap(touched); }) < (48 << 20))
    GTEST_SKIP() << "this system does not say how much memory was used";
  std::vector<char>().swap(touched);
  const SnapshotCommand command;
  const Words large = {"model.vocab_size=30000", "model.n_embd=128", "training.max_steps=1",
                       "training.global_batch_size=1"};
  command.train(ranks(2, 1) + large);
  const int64_t largest = int64_t{30000} * 128 * 4;
  ASSERT_GT(fs::file_size(command.step(1) + "/rank-00000.safetensors"), static_cast<uint64_t>(largest));
  const auto conversion = [&](const char* from, const char* to) {
    return Conversion{command.file(from), command.file(to), true};
  };
  const auto all = [&] {
    convert_to_snapshot(conversion("out/snapshots", "one"), 1, 1);
    convert_to_snapshot(conversion("one", "four"), 4, 1);
    convert_to_hugging_face(conversion("four", "hf"), DType::kBF16);
    convert_from_hugging_face(conversion("hf", "begun"),
                              read_config_text("c.yaml", kGpt, with_defaults(large)), {2, 1});
  };
  all();  // now the code that runs is in memory
  EXPECT_LT(peak_of(all), largest * 3 / 4);
}

}  // namespace
}  // namespace recollect::test::snapshot_command_test
