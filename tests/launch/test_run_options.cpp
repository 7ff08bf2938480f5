// The flags of `recollect run`, and the program behind them, before anything is started.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/io/node.h"
#include "launch/run/find_program.h"
#include "launch/run/options.h"
#include "tests/launch/run_support.h"

namespace recollect::test::run_options_test {
namespace {

using launcher::read_run_options;
using launcher::RunOptions;
using namespace std::chrono_literals;

TEST(RunOptions, AreTorchrunsInEitherSpelling) {
  const RunOptions dashes = read_run_options(
      {"--standalone", "--nnodes=1", "--nproc-per-node=3", "--max-restarts", "2", "--monitor-interval=0.5",
       "--grace", "1.5", "--log-dir", "x", "--run-id=a.b", "--no-python", "p", "--nproc-per-node", "7"});
  EXPECT_EQ(dashes.ranks, 3);
  EXPECT_EQ(dashes.max_restarts, 2);
  EXPECT_EQ(dashes.monitor_interval, 500ms);
  EXPECT_EQ(dashes.grace, 1500ms);
  EXPECT_EQ(dashes.log_dir, "x");
  EXPECT_EQ(dashes.run_id, "a.b");
  EXPECT_FALSE(dashes.with_python);
  EXPECT_EQ(dashes.program, (Words{"p", "--nproc-per-node", "7"}))
      << "flags behind the program are the program's";
  const RunOptions underscores = read_run_options({"--nproc_per_node", "3", "--max_restarts=2", "--rdzv_id",
                                                   "a_b", "--master_addr=h", "--master_port=29500", "p"});
  EXPECT_EQ(underscores.ranks, 3);
  EXPECT_EQ(underscores.max_restarts, 2);
  EXPECT_EQ(underscores.run_id, "a_b");
  EXPECT_EQ(underscores.master_addr, "h");
  EXPECT_EQ(underscores.master_port, 29500);
  EXPECT_EQ(read_run_options({"--nproc", "3", "p"}).ranks, 3) << "cut short";
  EXPECT_EQ(read_run_options({"--", "-p"}).program, (Words{"-p"}));
  EXPECT_EQ(read_run_options({"--nproc-per-node", "cpu", "p"}).ranks, cores_to_use());
  EXPECT_NE(read_run_options({"p"}).run_id, read_run_options({"p"}).run_id);
}

struct RunOptionsCase {
  Words words;
  const char *what, *hint;
};

TEST(RunOptions, WhatCannotBeIsRefused) {
  const RunOptionsCase cases[] = {
      {{}, "run needs a program", ""},
      {{"--nproc-per-node", "2"}, "run needs a program", ""},
      {{"--nproc-per-nod=2", "--x"}, "unknown flag --x", "lists the flags"},
      {{"--nporc-per-node=2", "p"}, "unknown flag --nporc-per-node", "did you mean --nproc-per-node?"},
      {{"--max_restart_s", "2", "p"}, "unknown flag --max-restart-s", "did you mean --max-restarts?"},
      {{"-x", "p"}, "unknown flag -x", "lists the flags"},
      {{"-m", "package"}, "-m is not one of run's flags", "python3 -m MODULE"},
      {{"--rdzv-endpoint=a:1", "p"}, "--rdzv-endpoint is for several nodes", "mpirun or srun"},
      {{"--nnodes", "2", "p"}, "--nnodes 2", "mpirun or srun"},
      {{"--nnodes=1:4", "p"}, "--nnodes 1:4", "mpirun or srun"},
      {{"--nproc-per-node", "0", "p"}, "--nproc-per-node 0", "it is 1 to 1024, auto, gpu or cpu"},
      {{"--nproc-per-node=1025", "p"}, "--nproc-per-node 1025", "it is 1 to 1024"},
      {{"--nproc-per-node=many", "p"}, "--nproc-per-node many", "it is 1 to 1024"},
      {{"--nproc-per-node"}, "nproc-per-node", ""},
      {{"--max-restarts=-1", "p"}, "--max-restarts -1", "0 or more"},
      {{"--max-restarts=x", "p"}, "max-restarts", ""},
      {{"--max-restarts=%value%", "p"}, "beside '--max-restarts=%value%'", "lists the flags"},
      {{"--grace=-1", "p"}, "--grace -1", "0 to 1000000 seconds"},
      {{"--grace=nan", "p"}, "--grace nan", "seconds"},
      {{"--monitor-interval=0", "p"}, "--monitor-interval 0", "0.001 to 1000000 seconds"},
      {{"--master-port=65536", "p"}, "--master-port 65536", "1 to 65535"},
      {{"--standalone", "--master-port=1", "p"}, "--standalone chooses", "leave out"},
      {{"--run-id=a/b", "p"}, "--run-id a/b", "names a folder"},
      {{"-t", "4", "p"}, "--tee 4", "0 (none), 1 (stdout)"},
      {{"-r", "0:", "p"}, "--redirects 0:", "RANK:0-3"},
      {{"-r", "0:1,1", "--nproc=2", "p"}, "--redirects 0:1,1", "RANK:0-3"},
      {{"-r", "0:3,0:1", "p"}, "--redirects 0:3,0:1: rank 0 twice", "once"},
      {{"-t", "1:3", "p"}, "--tee: '1' is none of the 1 ranks", "ranks are 0 to 0"},
      {{"--local-ranks-filter=0,2", "--nproc=2", "p"},
       "--local-ranks-filter: '2' is none of the 2 ranks",
       ""}};
  for (const RunOptionsCase& c : cases) {
    std::string said = "nothing";
    try {
      read_run_options(c.words);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      said = std::string(error.what()) + "\n" + error.hint();
    }
    EXPECT_NE(said.find(c.what), std::string::npos) << c.what << "\n" << said;
    EXPECT_NE(said.find(c.hint), std::string::npos) << c.hint << "\n" << said;
  }
}

TEST(RunOptions, GpusAreWhatTheDriverListsAndTheUserLeaves) {
  const test::TemporaryFolder driver;
  const std::string none = driver.file("none"), two = driver.file("gpus");
  driver.write("gpus/0000:01:00.0/information", "");
  driver.write("gpus/0000:02:00.0/information", "");
  EXPECT_EQ(count_gpus(nullptr, none), 0);
  EXPECT_EQ(count_gpus("0,1", none), 0);
  EXPECT_EQ(count_gpus(nullptr, two), 2);
  EXPECT_EQ(count_gpus("", two), 0);
  EXPECT_EQ(count_gpus("-1", two), 0);
  EXPECT_EQ(count_gpus("1", two), 1);
  EXPECT_EQ(count_gpus("1,0", two), 2);
  EXPECT_EQ(count_gpus("0,2,1", two), 1) << "CUDA stops at the first that is none";
  EXPECT_EQ(count_gpus("GPU-8f2c,MIG-1", two), 2);
}

TEST(RunOptions, TheProgramIsFoundBeforeItIsStarted) {
  const test::TemporaryFolder folder;
  const std::string script = folder.write("a.py", ""), text = folder.write("text", "");
  const auto find_program = [](const Words& words, bool with_python) {
    return launcher::find_program(words, {"train"}, with_python);
  };
  EXPECT_EQ(find_program({"train", "c.yaml"}, true).words, (Words{"recollect", "train", "c.yaml"}));
  EXPECT_EQ(find_program({"train", "c.yaml"}, true).path, std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_TRUE(find_program({"sh"}, true).path.ends_with("/sh"));
  ::setenv("PYTHON_EXEC", "/bin/sh", 1);
  EXPECT_EQ(find_program({script, "1"}, true).path, "/bin/sh");
  EXPECT_EQ(find_program({script, "1"}, true).words, (Words{"python3", "-u", script, "1"}));
  ::unsetenv("PYTHON_EXEC");
  const std::pair<Words, const char*> refused[] = {
      {{"no-such-program"}, "there is no program 'no-such-program' in PATH"},
      {{text}, " may not be executed"},
      {{folder.file("none")}, " is no program"},
      {{folder.file("none.py")}, "there is no file "}};
  for (const auto& [words, says] : refused) try {
      find_program(words, true);
      ADD_FAILURE() << words.front();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  EXPECT_THROW(find_program({script}, false), Error);
}

TEST(RunOptions, ErrorsComeBeforeAnyRank) {
  for (const Words& words :
       {Words{"--nproc-per-node=gpu", "sh", "-c", ": > started"}, Words{"no-such-program"},
        Words{"--log-dir=c.yaml/x", "sh", "-c", ": > started"}}) {
    Launch launch(words, {{"CUDA_VISIBLE_DEVICES", ""}});
    const Finished finished = launch.finish();
    EXPECT_EQ(finished.status, words.front().starts_with("--log") ? 6 : 2) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(launch.file("started")));
  }
  Launch broken(shell("exit 0"), {{"TMPDIR", "/nowhere"}});
  EXPECT_EQ(broken.finish().status, 0) << "no TMPDIR there is /tmp";
}

TEST(RunOptions, AFileThatIsNoProgramIsNamed) {
  Launch launch({"--nproc=2", "./junk"}, {},
                {"sh", "-c", "printf junk > junk; chmod +x junk; exec \"$@\"", "sh"});
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 2) << finished.err;
  EXPECT_NE(finished.err.find("./junk cannot be executed: Exec format error"), std::string::npos)
      << finished.err;
}

TEST(RunOptions, Help) {
  const Workplace place;
  const Finished help = place.recollect({"run", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.out.find("usage: recollect run [flags] PROGRAM"), 0u) << help.out;
  EXPECT_NE(help.out.find("--nproc-per-node"), std::string::npos) << help.out;
  EXPECT_EQ(place.recollect(Words{"run"} + shell("echo $0") + Words{"--help"}).out, "[rank0]: --help\n")
      << "a program's own flags are its own";
}

TEST(RunOptions, VariablesOfARank) {
  Launch launch(
      Words{"--nproc-per-node=2", "--max-restarts=3", "--run-id=some.run", "-r", "0:1", "--log-dir=logs"} +
          shell("env; sed 's/^/token /' $RECOLLECT_STORE_TOKEN_FILE; stat -c 'mode %a' "
                "$RECOLLECT_STORE_TOKEN_FILE"),
      {{"RECOLLECT_RANK", "5"}}, {"env", "-u", "OMP_NUM_THREADS"});
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  for (const char* line :
       {"RANK=1", "LOCAL_RANK=1", "ROLE_RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "ROLE_WORLD_SIZE=2",
        "GROUP_RANK=0", "MASTER_ADDR=127.0.0.1", "TORCHELASTIC_RESTART_COUNT=0",
        "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=some.run"})
    EXPECT_NE(finished.out.find(std::string("[rank1]: ") + line + "\n"), std::string::npos)
        << line << finished.out;
  for (const char* name :
       {"MASTER_PORT=", "OMP_NUM_THREADS=", "RECOLLECT_RUN_ID=some.run.", "RECOLLECT_STORE_TOKEN_FILE="})
    EXPECT_NE(finished.out.find(std::string("[rank1]: ") + name), std::string::npos) << name << finished.out;
  EXPECT_NE(finished.err.find("recollect run: OMP_NUM_THREADS="), std::string::npos) << finished.err;
  EXPECT_EQ(finished.out.find("RECOLLECT_RANK"), std::string::npos) << finished.out;
  const std::size_t token = finished.out.find("[rank1]: token ") + 15;
  EXPECT_EQ(finished.out.find_first_not_of("0123456789abcdef", token), token + 64) << finished.out;
  EXPECT_NE(finished.out.find("mode 600\n"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace recollect::test::run_options_test
