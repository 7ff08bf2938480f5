// The program as its user meets it: what it says, and its exit status, for every kind of mistake that is made
// before or while one process trains.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/process.h"

namespace recollect::test::command_line_test {
namespace {

struct CommandLineCase {
  const char* name;
  int status;
  Words words;                    // after the program's name
  std::vector<const char*> says;  // each is somewhere in standard error
  Environment environment = {};
  std::map<std::string, std::string> files = {};  // written first
};

void PrintTo(const CommandLineCase& c, std::ostream* out) { *out << c.name; }

class CommandLine : public ::testing::TestWithParam<CommandLineCase> {};

TEST_P(CommandLine, StopsAndSaysWhy) {
  const CommandLineCase& c = GetParam();
#ifdef __SANITIZE_THREAD__
  if (std::string(c.name) == "LauncherWithoutMpi")
    GTEST_SKIP() << "it knows nothing of the MPI library's locks";
#endif
  const Workplace place;
  for (const auto& [name, content] : c.files) place.folder().write(name, content);
  const Finished finished = place.recollect(c.words, c.environment);
  EXPECT_EQ(finished.status, c.status) << finished.out << finished.err;
  for (const char* text : c.says)
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
  EXPECT_EQ(finished.err.find("this is a bug"), std::string::npos) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(place.file("out/model.safetensors")));
  for (const auto& step : place.metrics()) EXPECT_TRUE(step["loss"].is_number());
}

Words train(const Words& words) { return Words{"train", "c.yaml"} + words; }

// `recollect train bad.yaml` of that text.
CommandLineCase text_case(const char* name, const char* text, std::vector<const char*> says) {
  return {name, 2, {"train", "bad.yaml"}, std::move(says), {}, {{"bad.yaml", text}}};
}

std::string case_name(const ::testing::TestParamInfo<CommandLineCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Usage, CommandLine,
    ::testing::Values(
        CommandLineCase{
            "NoCommand", 2, {}, {"no command given", "\n  recollect --help lists the commands\n"}},
        CommandLineCase{"UnknownCommand",
                        2,
                        {"dance"},
                        {"unknown command 'dance'\n", "recollect --help lists the commands"}},
        CommandLineCase{"NearlyACommand", 2, {"trian"}, {"unknown command 'trian'; did you mean 'train'?\n"}},
        CommandLineCase{"HalfACommand",
                        2,
                        {"snapshot"},
                        {"snapshot needs one more word: inspect, verify, convert\n"
                         "  usage: recollect snapshot inspect|verify|convert ...\n"
                         "  recollect snapshot --help says more\n"}},
        CommandLineCase{"NearlyASecondWord",
                        2,
                        {"config", "shwo"},
                        {"unknown word 'shwo' after config; did you mean 'show'?\n"}},
        CommandLineCase{
            "UnknownOption", 2, {"train", "c.yaml", "--fast"}, {"--fast", "usage: recollect train"}},
        CommandLineCase{"NoFile", 2, {"train"}, {"train needs a configuration file"}},
        CommandLineCase{
            "MissingFile", 2, {"train", "nothing.yaml"}, {"nothing.yaml: cannot be read: No such file"}},
        CommandLineCase{"AFolder", 2, {"train", "."}, {".: is a folder, where a file is expected"}},
        CommandLineCase{"NoOverride", 2, train({"training.seed"}), {"expected section.key=value"}},
        CommandLineCase{"UnknownOverride",
                        2,
                        train({"training.max_step=1"}),
                        {"unknown key 'max_step'", "did you mean 'max_steps'?"}},
        CommandLineCase{"OverrideOutOfRange",
                        2,
                        train({"training.max_steps=-2"}),
                        {"training.max_steps: -2 is out of range"}},
        CommandLineCase{
            "NothingToDo",
            2,
            train({"training.max_steps=0"}),
            {"training.max_steps 0 trains nothing, and nothing is evaluated either: give evaluation.path"}},
        CommandLineCase{
            "OverrideWithoutEffect", 2, train({"optimizer.beta1=0.8"}), {"optimizer.beta1 has no effect"}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Yaml, CommandLine,
    ::testing::Values(
        text_case("Empty", "", {"bad.yaml:1:1: empty"}),
        text_case("NotAMapping", "- a\n", {"bad.yaml:1:1: expected a mapping of sections, found a list"}),
        text_case("OpenBracket", "data: {format: random\ntraining: {seed: 1}\n", {"bad.yaml:2:"}),
        text_case("OpenQuote", "output_dir: \"abc\n", {"bad.yaml:"}),
        text_case("Tab", "data:\n\tformat: random\n",
                  {"bad.yaml:2:8: illegal map value; indent with spaces, not tabs"}),
        text_case("Indentation", "data:\n  format: random\n seed: 1\n", {"bad.yaml:3:"}),
        text_case("TwoDocuments", "data: {format: random}\n---\na: 1\n", {"bad.yaml:"}),
        text_case("NotText", "data: \x01\n", {"bad.yaml:1:7:"}),
        text_case("Anchor", "data: &d {format: random}\n", {"bad.yaml:1:7:"}),
        text_case("Alias", "data: {format: random}\nmodel: *d\n", {"bad.yaml:2:8:"}),
        text_case("Tag", "data: !!map {format: random}\n", {"bad.yaml:1:7:"}),
        text_case("Duplicate", "data: {format: random}\noutput_dir: a\noutput_dir: b\n",
                  {"bad.yaml:3:1: duplicate key 'output_dir', first given on line 2"}),
        text_case("EverythingAtOnce", "data: {format: random}\ntraning: {}\noptimizer:\n  lr: fast\n",
                  {"bad.yaml:2:1: unknown key 'traning'; did you mean 'training'?",
                   "bad.yaml:4:7: optimizer.learning_rate: expected a finite decimal number, found 'fast'"})),
    case_name);

// A process that a launcher counts among several never trains alone.
INSTANTIATE_TEST_SUITE_P(
    Alone, CommandLine,
    ::testing::Values(
        CommandLineCase{"TwoRanksAsked",
                        2,
                        train({"parallelism.tensor_parallel_size=2"}),
                        {"asks for 2 ranks, but this process is alone",
                         "recollect run --nproc-per-node 2 ...", "mpirun -np 2 recollect ..."}},
        CommandLineCase{"FarMoreThreadsThanCores",
                        2,
                        train({"device.backend=cpu", "training.precision=fp32", "device.threads=4096"}),
                        {"device.threads 4096 on a node of", "are the most that are accepted"}},
        CommandLineCase{"TorchrunAndSelf",
                        2,
                        train({"parallelism.communicator=self"}),
                        {"torchrun started 2 ranks, but parallelism.communicator is self"},
                        {{"WORLD_SIZE", "2"}, {"RANK", "0"}}},
        CommandLineCase{"MpirunAndSelf",
                        2,
                        train({"parallelism.communicator=self"}),
                        {"Open MPI started 2 ranks, but parallelism.communicator is self"},
                        {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}},
        CommandLineCase{
            "HalfAnEnvironment", 2, train({}), {"WORLD_SIZE is set, RANK is not"}, {{"WORLD_SIZE", "2"}}},
        CommandLineCase{"HalfOfOpenMpi",
                        2,
                        train({}),
                        {"OMPI_COMM_WORLD_SIZE is set, OMPI_COMM_WORLD_RANK is not"},
                        {{"OMPI_COMM_WORLD_SIZE", "2"}}},
        CommandLineCase{"LauncherWithoutMpi",
                        2,
                        train({}),
                        {"Open MPI says this is rank 0 of 2, but the MPI world has 1 rank"},
                        {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}},
        CommandLineCase{
            "NotANumber", 2, train({}), {"WORLD_SIZE is 'two'"}, {{"WORLD_SIZE", "two"}, {"RANK", "0"}}},
        CommandLineCase{"RankThreadsToo",
                        2,
                        train({"parallelism.ranks_per_process=2"}),
                        {"torchrun started 2 processes, and parallelism.ranks_per_process is 2"},
                        {{"WORLD_SIZE", "2"}, {"RANK", "0"}}}),
    case_name);

std::string tokens(int count, int id_at_100, std::size_t bytes_missing = 0) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int id = i == 100 ? id_at_100 : i % 61;
    bytes += {static_cast<char>(id & 255), static_cast<char>(id >> 8)};
  }
  return bytes.substr(0, bytes.size() - bytes_missing);
}

// llm.c's header: 256 numbers of 32 bits, then tokens.
std::string with_header(uint32_t count, const std::string& tokens) {
  std::vector<uint32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens;
}

Words read_tokens(const Words& words) {
  return train({"data.format=tokens", "data.path=t.bin", "data.shuffle=false", "training.max_steps=20"}) +
         words;
}

INSTANTIATE_TEST_SUITE_P(
    Data, CommandLine,
    ::testing::Values(
        CommandLineCase{"MissingFile",
                        3,
                        train({"data.format=text", "data.path=nothing.txt", "model.vocab_size=256"}),
                        {"command line: data.path=nothing.txt: data.path: there is no file or folder "
                         "nothing.txt\n"}},
        CommandLineCase{"MissingFiles",
                        3,
                        {"train", "e.yaml"},
                        {"recollect: e.yaml:2:28: data.path: there is no file or folder nothing.txt\n"
                         "e.yaml:3:20: evaluation.path: there is no file or folder none.txt\n"},
                        {},
                        {{"e.yaml",
                          "model: {n_embd: 8, n_head: 1, n_layer: 1, n_positions: 8, vocab_size: 256}\n"
                          "data: {format: text, path: nothing.txt}\n"
                          "evaluation: {path: none.txt, every_steps: 1}\n"
                          "training: {max_steps: 1}\n"}}},
        CommandLineCase{"MissingEntryOfAList",
                        3,
                        {"train", "e.yaml"},
                        {"recollect: e.yaml:6:7: data.path: there is no file or folder nothing.txt\n"},
                        {},
                        {{"e.yaml",
                          "model: {n_embd: 8, n_head: 1, n_layer: 1, n_positions: 8, vocab_size: 256}\n"
                          "data:\n  format: text\n  path:\n    - e.yaml\n    - nothing.txt\n"
                          "training: {max_steps: 1}\n"}}},
        CommandLineCase{
            "MissingPath", 2, train({"data.format=text", "model.vocab_size=256"}), {"data.path is missing"}},
        CommandLineCase{"OutsideTheVocabulary",
                        3,
                        read_tokens({"data.dtype=uint16"}),
                        {"t.bin: the token 61 at byte 200 is outside the vocabulary of 61"},
                        {},
                        {{"t.bin", tokens(400, 61)}}},
        CommandLineCase{"HalfAToken",
                        3,
                        read_tokens({"data.dtype=uint16"}),
                        {"t.bin: truncated: 799 bytes"},
                        {},
                        {{"t.bin", tokens(400, 1, 1)}}},
        CommandLineCase{"TruncatedUnderItsHeader",
                        3,
                        read_tokens({}),
                        {"t.bin: truncated: its header asks for 1824 bytes (400 tokens), the file has 1822"},
                        {},
                        {{"t.bin", with_header(400, tokens(400, 1, 2))}}},
        CommandLineCase{"TooShort",
                        3,
                        read_tokens({"data.dtype=uint16"}),
                        {"t.bin holds 7 tokens, fewer than one sequence of 8"},
                        {},
                        {{"t.bin", tokens(7, 0)}}},
        CommandLineCase{"JsonlOutsideTheVocabulary",
                        3,
                        train({"data.format=jsonl", "data.path=a.jsonl"}),
                        {"a.jsonl:2:16: id 61 is outside the vocabulary of 61"},
                        {},
                        {{"a.jsonl", "{\"input_ids\": [1]}\n{\"input_ids\": [61]}\n"}}},
        CommandLineCase{"BrokenJsonl",
                        3,
                        train({"data.format=jsonl", "data.path=a.jsonl"}),
                        {"a.jsonl:2:"},
                        {},
                        {{"a.jsonl", "{\"input_ids\": [1]}\n{\"input_ids\": [\n"}}},
        CommandLineCase{"NothingToLearn",
                        3,
                        train({"data.format=jsonl", "data.path=a.jsonl"}),
                        {"the global batch has no target that counts"},
                        {},
                        {{"a.jsonl", "{\"input_ids\": [1]}\n"}}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Machine, CommandLine,
    ::testing::Values(
        CommandLineCase{
            "FolderBelowAFile", 6, train({"output_dir=c.yaml/x"}), {"cannot make the folder c.yaml/x"}},
        CommandLineCase{"FolderIsAFile", 6, train({"output_dir=c.yaml"}), {"c.yaml"}},
        CommandLineCase{"GradientsNowhere",
                        6,
                        train({"debug.dump_gradients=nowhere/g.safetensors"}),
                        {"cannot create nowhere/g.safetensors"}},
        CommandLineCase{"Exploding",
                        7,
                        train({"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"}),
                        {"step 2: loss", "the first value that is not finite is layer0/"}},
        CommandLineCase{"ExplodingFloats",
                        7,
                        train({"optimizer.learning_rate=1e30", "optimizer.max_grad_norm=0",
                               "device.backend=cpu", "device.threads=1", "training.precision=fp32"}),
                        {"step 2: loss", "the first value that is not finite is layer0/"}}),
    case_name);

TEST(MemoryLimit, StopsBeforeAnythingIsTrained) {
  const Workplace place;
  const Finished refused = place.train({"device.memory_limit=64KiB"});
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_NE(refused.err.find(" on this rank; device.memory_limit is 65536 bytes (64.00 KiB)"),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("activations"), std::string::npos)
      << "says what takes the bytes: " << refused.err;
  EXPECT_TRUE(place.metrics().empty());
  // The sentence's number is enough, and one byte less is not.
  const int64_t needed = std::stoll(refused.err.substr(refused.err.find("needs ") + 6));
  EXPECT_EQ(place.train({"device.memory_limit=" + std::to_string(needed - 1)}).status, 4);
  EXPECT_EQ(place.train({"device.memory_limit=" + std::to_string(needed)}).status, 0);
}

}  // namespace
}  // namespace recollect::test::command_line_test
