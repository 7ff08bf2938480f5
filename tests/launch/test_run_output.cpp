// What ranks write, on its way through the launcher: whole lines on the console, every byte in the files, and
// the streams where the flags send them.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "launch/run/relay.h"
#include "tests/launch/run_support.h"

namespace recollect::test::run_output_test {
namespace {

std::string folder_of_logs(const Launch& launch) {
  return std::filesystem::directory_iterator(launch.file("logs"))->path().string() + "/attempt_0/";
}

TEST(RunOutput, LinesOfManyRanksStayWhole) {
  constexpr int kRanks = 4, kLines = 3000;
  Launch launch(Words{"--nproc-per-node=" + std::to_string(kRanks)} +
                shell("i=0; while [ $i -lt " + std::to_string(kLines) +
                      " ]; do printf 'line %s of ' $i; echo rank $RANK; i=$((i + 1)); done"));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0);
  std::istringstream lines(finished.out);
  std::map<int, int> next;
  for (std::string line; std::getline(lines, line);) {
    int prefix = -1, number = -1, rank = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[rank%d]: line %d of rank %d", &prefix, &number, &rank), 3) << line;
    EXPECT_EQ(prefix, rank);
    EXPECT_EQ(number, next[rank]++) << "rank " << rank;
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(next[rank], kLines) << "rank " << rank;
}

TEST(RunOutput, LongAndUnendedLines) {
  Launch launch(
      Words{"--nproc-per-node=2"} +
      shell("head -c 700000 /dev/zero | tr '\\0' $RANK; printf '\\nno end'; printf 'none here' >&2"));
  const Finished finished = launch.finish();
  for (const std::string rank : {"0", "1"}) {
    const std::string prefix = "[rank" + rank + "]: ";
    EXPECT_NE(finished.out.find(prefix + std::string(700000, rank.front()) + "\n"), std::string::npos);
    EXPECT_NE(finished.out.find(prefix + "no end\n"), std::string::npos);
    EXPECT_NE(finished.err.find(prefix + "none here\n"), std::string::npos);
  }
  EXPECT_EQ(finished.out.size(), 2 * (9 + 700000 + 1 + 9 + 7));
}

TEST(RunOutput, FilesHoldEveryByte) {
  Launch launch(
      Words{"--log-dir=logs", "--nproc-per-node=2"} +
      shell(
          "head -c 3000000 /dev/urandom | tee bytes$RANK; head -c 2000 /dev/urandom | tee errors$RANK >&2"));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0);
  for (const char* rank : {"0", "1"}) {
    const std::string logs = folder_of_logs(launch) + rank;
    EXPECT_TRUE(TemporaryFolder::read(logs + "/stdout.log") ==
                TemporaryFolder::read(launch.file(std::string("bytes") + rank)));
    EXPECT_TRUE(TemporaryFolder::read(logs + "/stderr.log") ==
                TemporaryFolder::read(launch.file(std::string("errors") + rank)));
    EXPECT_EQ(std::filesystem::file_size(logs + "/stdout.log"), 3000000u);
  }
  EXPECT_GT(finished.out.size(), 6000000u) << "and the console got them too";
}

TEST(RunOutput, GoesWhereTheFlagsSendIt) {
  struct Case {
    Words flags;
    const char *out, *err;          // on the console
    std::vector<const char*> kept;  // RANK/STREAM.log
  };
  const Case cases[] = {
      {{}, "[rank0]: o0\n[rank1]: o1\n", "[rank0]: e0\n[rank1]: e1\n", {}},
      {{"-r", "3"}, "", "", {"0/stdout", "0/stderr", "1/stdout", "1/stderr"}},
      {{"-r1"}, "", "[rank0]: e0\n[rank1]: e1\n", {"0/stdout", "1/stdout"}},
      {{"--redirects=0:2,1:1"}, "[rank0]: o0\n", "[rank1]: e1\n", {"0/stderr", "1/stdout"}},
      {{"-t", "1:3"}, "[rank0]: o0\n[rank1]: o1\n", "[rank0]: e0\n[rank1]: e1\n", {"1/stdout", "1/stderr"}},
      {{"-r", "3", "-t", "2"},
       "",
       "[rank0]: e0\n[rank1]: e1\n",
       {"0/stdout", "0/stderr", "1/stdout", "1/stderr"}},
      {{"--local-ranks-filter", "1"}, "[rank1]: o1\n", "[rank1]: e1\n", {}},
      {{"--local_ranks_filter=0", "--tee=3"},
       "[rank0]: o0\n",
       "[rank0]: e0\n",
       {"0/stdout", "0/stderr", "1/stdout", "1/stderr"}}};
  for (const Case& c : cases) {
    // One after the other, so that the order is known.
    const std::string turn = "while [ $RANK = 1 ] && [ ! -e done0 ]; do sleep 0.01; done; ";
    const Words where = c.kept.empty() ? Words{} : Words{"--log-dir", "logs"};
    Launch launch(Words{"--nproc-per-node", "2"} + where + c.flags +
                      shell(turn + "echo o$RANK; echo e$RANK >&2; : > done$RANK"),
                  {{"OMP_NUM_THREADS", "1"}});
    Finished finished = launch.finish();
    const std::string flag = c.flags.empty() ? "none" : c.flags.back();
    EXPECT_EQ(finished.status, 0) << flag;
    EXPECT_EQ(finished.out, c.out) << flag;
    if (finished.err.starts_with("recollect run: logs in "))
      finished.err.erase(0, finished.err.find('\n') + 1);
    EXPECT_EQ(finished.err, c.err) << flag;
    if (c.kept.empty()) continue;
    for (const std::string rank : {"0", "1"})
      for (const std::string stream : {"stdout", "stderr"}) {
        const std::string name = rank + "/" + stream, path = folder_of_logs(launch) + name + ".log";
        const bool kept = std::find(c.kept.begin(), c.kept.end(), name) != c.kept.end();
        EXPECT_EQ(std::filesystem::exists(path), kept) << flag << " " << name;
        if (!kept) continue;
        EXPECT_EQ(TemporaryFolder::read(path), stream.substr(3, 1) + rank + "\n") << flag << " " << name;
      }
  }
}

TEST(RunOutput, NobodyReadsItToTheEnd) {
  Launch launch(shell("seq 1 100000; : > done"), {}, {"sh", "-c", "\"$@\" | head -n 1", "sh"});
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.out, "[rank0]: 1\n");
  EXPECT_TRUE(std::filesystem::exists(launch.file("done"))) << "its ranks went on";
}

TEST(RunOutput, RanksReadWhatTheLauncherIsGiven) {
  Launch launch({"cat"}, {}, {"sh", "-c", "echo question | \"$@\"", "sh"});
  EXPECT_EQ(launch.finish().out, "[rank0]: question\n");
}

// The box shows what a terminal would, and nothing that a terminal would obey.
TEST(RunOutput, TheLastLinesInTheBox) {
  const Words script = shell(
      "i=0; while [ $i -lt 30 ]; do echo line $i >&2; i=$((i + 1)); done; "
      "printf 'ten\\rtwenty\\rthirty\\n\\033[31mred' >&2; exit 1");
  Launch seen(script);
  const Finished shown = seen.finish();
  EXPECT_EQ(times_in(shown.err, "line 29"), 1) << shown.err;
  Launch launch(Words{"--log-dir", "logs", "--redirects", "2"} + script);
  const Finished finished = launch.finish();
  EXPECT_NE(finished.err.find("its last 20 line(s) on stderr:\n    line 12\n"), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("    line 29\n    thirty\n    \\x1b[31mred\n===="), std::string::npos)
      << finished.err;
}

// The console's part of a relay, from what is written to it in these pieces.
std::string relayed(const std::vector<std::string>& pieces) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
  launcher::Relay relay(Descriptor(ends[0]), 3, launcher::Stream::kError, false, "");
  Descriptor to(ends[1]);
  launcher::Console console;
  for (const std::string& piece : pieces) {
    EXPECT_EQ(::write(to.get(), piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    relay.read_some(console);
  }
  to.close();
  while (relay.read_some(console)) {
  }
  EXPECT_FALSE(relay.is_open());
  std::string lines;
  for (const std::string& line : relay.tail().lines()) lines += line + "|";
  return lines;
}

TEST(RunOutput, LinesEndWhereATerminalWouldBeginAgain) {
  EXPECT_EQ(relayed({}), "");
  EXPECT_EQ(relayed({"a\nb"}), "a|b|");
  EXPECT_EQ(relayed({"a", "b\n", "\n"}), "ab||");
  EXPECT_EQ(relayed({"a\r\nb\r", "\nc"}), "a|b|c|");
  EXPECT_EQ(relayed({"1 %\r2 %", "\r3 %\n", "next\n"}), "3 %|next|");
  EXPECT_EQ(relayed({"1 %\r2 %\r", "\n", "next\n"}), "2 %|next|");
  EXPECT_EQ(relayed({"1 %\r"}), "1 %|");
}

}  // namespace
}  // namespace recollect::test::run_output_test
