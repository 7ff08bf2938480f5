// What a shell proposes: by the table, and by the shells themselves where they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "launch/cli/commands.h"
#include "launch/cli/completion.h"
#include "launch/config/keys.h"
#include "tests/launch/process.h"

namespace recollect::test::completion_test {
namespace {

std::set<std::string> proposals(const Words& words) {
  std::set<std::string> texts;
  for (const Proposal& proposal : complete(words)) texts.insert(proposal.text);
  return texts;
}

using Set = std::set<std::string>;

TEST(Completion, CommandsAndTheirSecondWords) {
  Set first;
  for (const Command& command : commands())
    if (!command.of_two_words()) first.insert(std::string(command.name));
  EXPECT_EQ(proposals({""}), first);
  EXPECT_EQ(proposals({}), first);
  EXPECT_EQ(proposals({"tr"}), Set{"train"});
  EXPECT_EQ(proposals({"dance", ""}), Set{});
  EXPECT_EQ(proposals({"-"}), (Set{"--help", "--version"}));
  EXPECT_EQ(proposals({"config", ""}), (Set{"show", "import", "schema", "reference"}));
  EXPECT_EQ(proposals({"snapshot", "v"}), Set{"verify"});
  EXPECT_EQ(proposals({"snapshot", "dance", ""}), Set{});
  EXPECT_EQ(proposals({"completion", ""}), (Set{"bash", "zsh", "fish"}));
  for (const Proposal& proposal : complete({""})) EXPECT_NE(proposal.help, "") << proposal.text;
}

TEST(Completion, OptionsAndTheirValues) {
  EXPECT_EQ(proposals({"train", "c.yaml", "--"}), (Set{"--set", "--overwrite", "--help"}));
  EXPECT_EQ(proposals({"estimate", "--max-"}),
            (Set{"--max-micro-batch", "--max-sequence-length", "--max-layers"}));
  EXPECT_EQ(proposals({"predict", "c.yaml", "--as", ""}), (Set{"jsonl", "csv", "tsv", "glue", "squad"}));
  EXPECT_EQ(proposals({"predict", "c.yaml", "--as=s"}), Set{"--as=squad"});
  EXPECT_EQ(proposals({"tokenize", "--tokenizer", ""}), Set{":files"});
  EXPECT_EQ(proposals({"calibrate", "--out", "d"}), Set{":files"});
  EXPECT_EQ(proposals({"calibrate", "--seconds", ""}), Set{}) << "a number is the user's own";
  EXPECT_EQ(proposals({"snapshot", "convert", "a", "b", "--config", ""}), Set{":yaml"});
  EXPECT_EQ(proposals({"snapshot", "convert", "a", ""}), Set{":folders"});
  const std::vector<Proposal> files = complete({"estimate", "c.yaml", "--html=pa"});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].text, ":files");
  EXPECT_EQ(files[0].help, "--html=") << "what the names stand behind";
}

TEST(Completion, ConfigurationsKeysAndTheirValues) {
  EXPECT_EQ(proposals({"train", ""}), Set{":yaml"});
  EXPECT_EQ(proposals({"config", "show", ""}), Set{":yaml"});
  const Set sections = proposals({"train", "c.yaml", ""});
  for (const char* one : {"training.", "optimizer.", "model.", "output_dir="})
    EXPECT_TRUE(sections.contains(one)) << one;
  EXPECT_FALSE(sections.contains("training.seed=")) << "a section comes first";
  EXPECT_EQ(proposals({"train", "c.yaml", "activation_checkpointing.disk"}),
            Set{"activation_checkpointing.disk_checkpointing."});
  EXPECT_EQ(proposals({"train", "c.yaml", "training.prec"}), Set{"training.precision="});
  EXPECT_EQ(proposals({"train", "c.yaml", "training.precision=b"}), Set{"training.precision=bf16"});
  EXPECT_EQ(proposals({"train", "c.yaml", "--set", "training.precision=b"}), Set{"training.precision=bf16"});
  EXPECT_EQ(proposals({"train", "c.yaml", "--set=training.precision=b"}),
            Set{"--set=training.precision=bf16"});
  EXPECT_EQ(proposals({"train", "c.yaml", "parallelism.sequence_parallel="}),
            (Set{"parallelism.sequence_parallel=true", "parallelism.sequence_parallel=false"}));
  EXPECT_EQ(proposals({"train", "c.yaml", "activation_checkpointing.recompute_granularity=fu"}),
            Set{"activation_checkpointing.recompute_granularity=full"})
      << "another name of the key";
  EXPECT_EQ(proposals({"train", "c.yaml", "data.path=x"}), Set{":files"});
  EXPECT_EQ(proposals({"train", "c.yaml", "training.max_steps="}), Set{});
  EXPECT_TRUE(proposals({"train", "c.yaml", "model."}).contains("model.rope_theta=")) << "of any family";
  const Set bert = proposals({"train", "c.yaml", "model.type=bert", "model."});
  EXPECT_FALSE(bert.contains("model.rope_theta="));
  EXPECT_TRUE(bert.contains("model.type_vocab_size="));
}

// Each key that there is can be reached, section by section.
TEST(Completion, ReachesEveryKey) {
  const KeyTable keys;
  for (const ConfigKey& key : keys.keys()) {
    const std::string path = key.path();
    for (std::size_t end = 0; end != std::string::npos;) {
      const std::size_t next = path.find('.', end);
      const std::string proposed = next == std::string::npos ? path + "=" : path.substr(0, next + 1);
      EXPECT_TRUE(proposals({"train", "c.yaml", path.substr(0, end)}).contains(proposed)) << proposed;
      end = next == std::string::npos ? next : next + 1;
    }
  }
}

TEST(Completion, BehindRun) {
  EXPECT_TRUE(proposals({"run", "--nproc-per"}).contains("--nproc-per-node"));
  EXPECT_EQ(proposals({"run", "--nproc_per_node", ""}), (Set{"auto", "gpu", "cpu"}));
  EXPECT_EQ(proposals({"run", "--nproc-per-node", "2", "tra"}), (Set{"train", ":files"}));
  EXPECT_EQ(proposals({"run", "--nproc-per-node=2", "train", ""}), Set{":yaml"});
  EXPECT_EQ(proposals({"run", "train", "c.yaml", "training.precision=f"}),
            (Set{"training.precision=fp32", "training.precision=fp64", "training.precision=fp16"}));
  EXPECT_EQ(proposals({"run", "./mine", "--"}), Set{":files"}) << "another program's words";
}

// The last of the words is completed by the shell `name`, or the test is skipped.
class Shells : public ::testing::Test {
 protected:
  Shells() {
    for (const char* file : {"one.yaml", "two.yml", "three.txt", "fo/x.yaml", "sp ace.yaml"})
      place_.folder().write(file, "");
  }

  // What the shell says to the commands, with the program's script in `script` and the program itself in PATH.
  std::string ask(const Words& shell, const std::string& commands) const {
    const std::string name = shell.front();
    const Finished script = place_.recollect({"completion", name});
    EXPECT_EQ(script.status, 0) << script.err;
    place_.folder().write("script", script.out);
    const std::string path = recollect_binary().substr(0, recollect_binary().rfind('/'));
    const Finished done =
        Process(Words{"env", "PATH=" + path + ":" + std::getenv("PATH")} + shell + Words{commands},
                place_.folder().path())
            .wait(Workplace::kBound);
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(done.err, "");
    return done.out;
  }

  bool has(const char* shell) const {
    return Process({"sh", "-c", std::string("command -v ") + shell}, place_.folder().path())
               .wait(Workplace::kBound)
               .status == 0;
  }

  Workplace place_;
};

// As readline calls it: words are broken at = and :, and what stands behind the last of them is replaced.
constexpr const char* kAskBash = R"(
source ./script
ask() {
  COMP_LINE=$1 COMP_POINT=${#1}
  $(complete -p recollect | sed 's/.*-F \([^ ]*\).*/\1/') recollect '' ''
  echo "$1:" $(printf '[%s]\n' "${COMPREPLY[@]}" | LC_ALL=C sort)
}
ask 'recollect trai'
ask 'recollect  config '
ask 'recollect train '
ask 'recollect train fo'
ask 'recollect train one.yaml training.prec'
ask 'recollect train one.yaml training.precision='
ask 'recollect train one.yaml training.precision=bf'
ask 'recollect train one.yaml data.path=th'
ask 'recollect report f'
ask 'recollect estimate one.yaml --html=th'
ask 'recollect dance '
)";

TEST_F(Shells, Bash) {
  if (!has("bash")) GTEST_SKIP() << "there is no bash";
  EXPECT_EQ(ask({"bash", "--norc", "-uc"}, kAskBash),
            "recollect trai: [train]\n"
            "recollect  config : [import] [reference] [schema] [show]\n"
            "recollect train : [c.yaml] [fo] [one.yaml] [sp ace.yaml] [two.yml]\n"
            "recollect train fo: [fo]\n"
            "recollect train one.yaml training.prec: [training.precision=]\n"
            "recollect train one.yaml training.precision=: [bf16] [fp16] [fp32] [fp64]\n"
            "recollect train one.yaml training.precision=bf: [bf16]\n"
            "recollect train one.yaml data.path=th: [three.txt]\n"
            "recollect report f: [fo]\n"
            "recollect estimate one.yaml --html=th: [three.txt]\n"
            "recollect dance : []\n");
}

TEST_F(Shells, Zsh) {
  if (!has("zsh")) GTEST_SKIP() << "there is no zsh";
  // The completion system's own functions need a terminal: these say what they are told to add.
  EXPECT_EQ(ask({"zsh", "-fc"}, R"(
compdef() { :; }
compset() { echo "compset ${(j: :)@}"; }
_files() { echo "files ${(j: :)@}"; }
compadd() { echo "${(j: :)@}: ${(P)@[-1]}"; }
source ./script
ask() { local -a words; words=(recollect "$@"); local CURRENT=$#words PREFIX=$words[-1]; _recollect; }
ask trai
ask train ''
ask train one.yaml training.prec
ask train one.yaml training.precision=bf
ask estimate one.yaml --html=th
)"),
            "-l -d plain_help -a plain: train\n"
            "files -g *.(yaml|yml)\n"
            "-S  -l -d open_help -a open: training.precision=\n"
            "-l -d plain_help -a plain: training.precision=bf16\n"
            "compset -P --html=\nfiles \n");
}

TEST_F(Shells, Fish) {
  if (!has("fish")) GTEST_SKIP() << "there is no fish";
  const std::string said = ask({"fish", "--no-config", "-c"}, R"(
source ./script
for line in 'recollect trai' 'recollect train on' 'recollect train one.yaml training.precision=bf' \
    'recollect train one.yaml data.path=th' 'recollect report f'
    complete -C "$line" | string replace -r '\t.*' ''
end
)");
  EXPECT_EQ(said, "train\none.yaml\ntraining.precision=bf16\ndata.path=three.txt\nfo/\n");
}

TEST(Completion, NoOtherShell) {
  const Workplace place;
  const Finished done = place.recollect({"completion", "csh"});
  EXPECT_EQ(done.status, 2);
  EXPECT_EQ(done.err.find("recollect: completion: 'csh' is none of bash, zsh, fish\n"), 0u) << done.err;
  EXPECT_EQ(place.recollect({"completion", "words", "--", "train", "--help"}).out, "--help\tsays more\n")
      << "what is asked for is not asked of it";
}

}  // namespace
}  // namespace recollect::test::completion_test
