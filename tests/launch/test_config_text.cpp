// The command line's overrides, and the resolved dump: what is written reads back to the same configuration.
#include <cmath>

#include "launch/config/keys.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_text_test {
namespace {

TEST(ConfigOverrides, WinOverTheFile) {
  const Config c =
      accepted("data: {format: jsonl}\ntraining: {seed: 1}\noptimizer: {lr: 1}\n",
               {"training.seed=2", "--set", "optimizer.learning_rate=0.5", "--set=parallelism.tp=3",
                "output_dir=a=b", "data.path=[x, 'y z']", "debug.dump_gradients=null: #x"});
  EXPECT_EQ(c.training.seed, 2);
  EXPECT_EQ(c.optimizer.learning_rate, 0.5);
  EXPECT_EQ(c.parallelism.tensor_parallel_size, 3);
  EXPECT_EQ(c.output_dir, "a=b");
  EXPECT_EQ(c.data.path, (std::vector<std::string>{"x", "y z"}));
  EXPECT_EQ(c.debug.dump_gradients, "null: #x");
  EXPECT_EQ(accepted("training: {seed: 1}", {"data.path=x"}).data.path, std::vector<std::string>{"x"});
}

TEST(ConfigOverrides, TheLastOfOneKeyWins) {
  EXPECT_EQ(accepted("data: {format: random}", {"optimizer.lr=1", "optimizer.learning_rate=2"})
                .optimizer.learning_rate,
            2);
  EXPECT_EQ(accepted("data: {format: random}", {"training.seed=x", "training.seed=5"}).training.seed, 5);
  const Config c =
      accepted("data: {format: random}", {"model.type=bert", "model.type=llama", "model.head_dim=8"});
  EXPECT_EQ(c.model.family().type, "llama");
  EXPECT_EQ(c.model.values.integer("head_dim"), 8);
}

// Names from a file do not move the cursor, and begin no line that could pass for one of ours.
TEST(ConfigText, IsShownWithoutItsPower) {
  EXPECT_EQ(refusal("\"a\\e[2J\\nrecollect: b\": 1\ndata: {format: random}\n"),
            "c.yaml:1:1: unknown key 'a\\x1b[2J\\x0arecollect: b'");
  EXPECT_EQ(refusal("data: {format: \"\\u202efoo\\n\"}\n"),
            "c.yaml:1:16: data.format: expected one of random, jsonl, tokens, text, csv, tsv, cola, sst2, "
            "mrpc, qqp, stsb, mnli, qnli, rte, swag, squad, conll, found the text "
            "\"\\u202efoo\\x0a\"");
}

TEST(ConfigOverrides, AreRefusedAsStrictlyAsTheFile) {
  const auto said = [](const std::vector<std::string>& words) { return refusal(kLeast, words); };
  EXPECT_EQ(said({"training.max_step=1"}),
            "command line: training.max_step=1: unknown key 'max_step' in section 'training'; did you mean "
            "'max_steps'?");
  EXPECT_EQ(said({"max_steps=1"}),
            "command line: max_steps=1: unknown key 'max_steps'; write training.max_steps=1");
  EXPECT_EQ(said({"trainin.seed=1"}),
            "command line: trainin.seed=1: unknown key 'trainin'; did you mean 'training'?");
  const std::string disk = "activation_checkpointing.disk_checkpointing";
  EXPECT_EQ(said({disk + "=x"}),
            "command line: " + disk + "=x: '" + disk + "' is a section; name one of its keys");
  EXPECT_EQ(said({disk + ".lmit=1"}), "command line: " + disk + ".lmit=1: unknown key 'lmit' in section '" +
                                          disk + "'; did you mean 'limit'?");
  EXPECT_EQ(said({disk + ".path.x=1"}), "command line: " + disk +
                                            ".path.x=1: unknown key 'path.x' in section '" + disk +
                                            "'; did you mean 'path'?");
  EXPECT_EQ(said({"training=1"}), "command line: training=1: 'training' is a section; name one of its keys");
  EXPECT_EQ(said({"training.seed"}), "command line: training.seed: expected section.key=value");
  EXPECT_EQ(said({"=1"}), "command line: =1: expected section.key=value");
  EXPECT_EQ(said({"--set"}), "command line: --set: expected section.key=value after it");
  EXPECT_EQ(
      said({"training.seed=010"}),
      "command line: training.seed=010: training.seed: expected a decimal integer without leading zeros, "
      "found '010'");
  EXPECT_EQ(said({"training.seed="}),
            "command line: training.seed=: training.seed: expected an integer, found ''");
  EXPECT_EQ(said({"parallelism.tp=5"}),
            "command line: parallelism.tp=5: model.n_head 12 is not a multiple of "
            "parallelism.tensor_parallel_size 5\n"
            "command line: parallelism.tp=5: model.n_inner 3072 is not a multiple of "
            "parallelism.tensor_parallel_size 5");
  EXPECT_EQ(said({"data.path=[a"}), "command line: data.path=[a: value:1:1: end of sequence flow not found");
  EXPECT_EQ(said({"data.path=[[a]]"}),
            "command line: data.path=[[a]]: data.path: expected a list of texts, and entry 1 is a list");
  EXPECT_EQ(said({"output_dir=\xff"}), "command line: an override is not UTF-8 text");
  EXPECT_EQ(said({"output_dir=\x1b[31m"}), "command line: an override holds a control character");
}

// Messages show names and paths as they are.
TEST(ConfigText, IsOneLineThatCanBeShown) {
  EXPECT_EQ(refusal("output_dir: \"o\\e[31m\\e]0;pwn\\a\\r\"\n" + kLeast),
            "c.yaml:1:13: output_dir: 'o\\x1b[31m\\x1b]0;pwn\\x07\\x0d' has characters that cannot be shown");
  for (const char* path : {"\"a\\nb\"", "[a, \"\\u202eb\"]"})
    EXPECT_NE(refusal(std::string("data: {path: ") + path + "}\n").find("cannot be shown"),
              std::string::npos);
  EXPECT_EQ(refusal(kLeast, {"output_dir=a\nb"}),
            "command line: output_dir=a\\x0ab: output_dir: 'a\\x0ab' has characters that cannot be shown");
}

// A text that begins like a list and continues after it is a name.
TEST(ConfigText, AWordMayBeginLikeAList) {
  using Names = std::vector<std::string>;
  for (const auto& [word, names] : {std::pair<const char*, Names>{"[a].txt", {"[a].txt"}},
                                    {"[a]/[b].txt", {"[a]/[b].txt"}},
                                    {"[a, b]", {"a", "b"}},
                                    {"[\"[a].txt\", b]", {"[a].txt", "b"}}})
    EXPECT_EQ(accepted("data: {path: x}\n", {std::string("data.path=") + word}).data.path, names);
  EXPECT_NE(refusal("data: {path: x}\n", {"data.path=[a"}), "accepted");
}

TEST(ConfigDump, ListsEveryKeyAndReadsBack) {
  Config c = accepted(
      R"(
model: {n_embd: 96, n_head: 6, n_positions: 64, layer_norm_epsilon: 1.1e-05, initializer_range: 0.1}
device: {memory_limit: 1536MiB}
optimizer: {lr: 0.30000000000000004, epsilon: 5e-324, weight_decay: 123456789.123456789}
data: {format: jsonl, path: ["a b", "null", "12", "x: y", "#", "- z", "\"quoted\\", "tab\there", "é", "[k]", "yes"]}
logging: {progress: on}
output_dir: "true"
)");
  resolve_world(c, 4);
  const std::string text = dump_resolved(c);
  const Config again = read_config_text("dump", text);
  EXPECT_EQ(flatten(again), flatten(c));
  EXPECT_EQ(again.optimizer.learning_rate, 0.30000000000000004);
  EXPECT_EQ(again.optimizer.epsilon, 5e-324);
  EXPECT_EQ(again.data.path, c.data.path);
  EXPECT_EQ(again.data.path[6], "\"quoted\\");
  EXPECT_EQ(again.data.path[7], "tab\there");
  EXPECT_EQ(again.output_dir, "true");
  EXPECT_EQ(dump_resolved(again), text);
  EXPECT_NE(text.find("  memory_limit: 1536MiB\n"), std::string::npos);
  EXPECT_NE(text.find("  progress: \"on\"\n"), std::string::npos);
  for (const auto& [key, value] : flatten(c)) {
    const std::string name = key.substr(key.rfind('.') + 1);
    EXPECT_NE(text.find(name + ": " + value + "\n"), std::string::npos) << key;
  }
}

TEST(ConfigDump, LongListsReadBack) {
  Config c = accepted("data: {path: x}\n");
  for (int i = 0; i < 3000; ++i) c.data.path.push_back("folder/with: colon/" + std::to_string(i));
  EXPECT_EQ(read_config_text("dump", dump_resolved(c)).data.path, c.data.path);
}

TEST(ConfigScalars, NumbersPrintToTheSameBits) {
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = std::bit_cast<double>(state);
    if (!std::isfinite(value)) continue;
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.text = print_value(value, {});
    double back = 0;
    EXPECT_EQ(read_value(node, {}, back), "") << node.text;
    EXPECT_EQ(std::bit_cast<uint64_t>(back), state) << node.text;
  }
}

}  // namespace
}  // namespace recollect::test::config_text_test
