// `recollect top`: what it shows of a run, and the terminal on which it does, which is afterwards as it was.
#include <gtest/gtest.h>

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "launch/top/screen.h"
#include "tests/launch/running_run.h"

namespace recollect::test::top_test {
namespace {

RunView view_of(int ranks, const TrainingCurves& curves) {
  RunView run{.name = "runs/a",
              .model = "m: 9 parameters",
              .layout = "1 data x 4 tensor ranks",
              .state = RunStage::kGoesOn};
  run.now = 1000;
  run.step = 120;
  run.max_steps = 2000;
  run.curves = &curves;
  for (int rank = 0; rank < ranks; ++rank) {
    LiveRank live{.rank = rank,
                  .ranks = ranks,
                  .host = "node",
                  .process = 77,
                  .step = 120,
                  .max_steps = 2000,
                  .written = 999};
    live.step_seconds = 0.05;
    live.waiting = rank == 1 ? 0 : 0.02;
    live.device = uint64_t{29} << 20;
    run.ranks.push_back({.rank = rank,
                         .live = live,
                         .resident = uint64_t{61} << 20,
                         .step = StepView{live.step_seconds, live.waiting, live.exposed}});
  }
  return run;
}

TrainingCurves some_curves() {
  TrainingCurves curves;
  for (int step = 1; step <= 120; ++step)
    curves.add_line(
        fmt::format(R"({{"step": {}, "loss": {}, "tokens_per_second": 19002, "step_seconds": 0.04}})", step,
                    5.0 - 0.02 * step));
  return curves;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t columns_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// 760 tokens a step: 19002 a second when the latest step took 40 ms, and 15202 in the steps of 50 ms that are shown.
TEST(TopScreen, HasTheRanksSideBySide) {
  const TrainingCurves curves = some_curves();
  const std::string text = joined(screen_lines(view_of(3, curves), {120, 30}, {}));
  for (const char* part :
       {"runs/a", "running", "step 120 of 2000 (6 %)   15202 tokens/s   50 ms a step   94 s left",
        "loss 2.6", "loss 2.6 to 4.98  █",
        "\nrank   step   a step   waits for ranks   for streams   device MiB   process MiB   on",
        "\n   0    120    50 ms              40 %           0 %        29.00         61.00   node (77)\n",
        "\n   1    120    50 ms               0 %",
        "rank 1 waits least: the others wait for it, up to 20 ms a step"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(TopScreen, FitsWhateverRoomThereIs) {
  const TrainingCurves curves = some_curves();
  const RunView run = view_of(40, curves);
  for (const int width : {1, 12, 40, 60, 80, 200})
    for (const int height : {1, 5, 9, 24, 100}) {
      const std::vector<std::string> lines = screen_lines(run, {width, height}, {}, 39);
      EXPECT_LE(lines.size(), static_cast<std::size_t>(height));
      for (const std::string& line : lines)
        EXPECT_LE(columns_of(line), static_cast<std::size_t>(width)) << line;
    }
  const std::string narrow = joined(screen_lines(run, {40, 24}, {}, 39));
  EXPECT_NE(narrow.find("\nrank   a step   waits for ranks"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("\n  39    50 ms"), std::string::npos) << "the last ranks are shown\n" << narrow;
  EXPECT_NE(narrow.find("ranks 24 to 39 of 40"), std::string::npos) << narrow;
}

TEST(TopScreen, SaysWhatBecameOfARun) {
  const TrainingCurves curves = some_curves();
  RunView run = view_of(2, curves);
  const auto first = [&] { return screen_lines(run, {60, 20}, {}).front(); };
  run.now = 1100;
  EXPECT_TRUE(first().ends_with("no step for 1.7 min")) << first();
  run.state = RunStage::kEnded;
  EXPECT_TRUE(first().ends_with("  ended")) << first();
  run.failure = "rank 1: out of memory";
  EXPECT_TRUE(first().ends_with("  failed")) << first();
  EXPECT_NE(joined(screen_lines(run, {60, 20}, {})).find("\nrank 1: out of memory\n"), std::string::npos);
  const std::string coloured = joined(screen_lines(run, {60, 20}, {.colours = true}));
  EXPECT_EQ(times_in(coloured, "\x1b[31m"), 1);
  EXPECT_EQ(times_in(coloured, "\x1b[0m"), times_in(coloured, "\x1b[") / 2);
}

TEST(LiveRank, IsReadAsItWasWritten) {
  const LiveRank live{.rank = 3,
                      .ranks = 8,
                      .host = "a\"b",
                      .process = 12,
                      .step = 5,
                      .max_steps = 9,
                      .written = 1764000000,
                      .step_seconds = 0.25,
                      .waiting = 0.125,
                      .exposed = 0.0625,
                      .device = 1 << 20,
                      .host_memory = 7};
  fmt::memory_buffer text;
  append_live_rank(live, text);
  LiveRank expected = live;
  expected.host = "ab";
  EXPECT_EQ(read_live_rank(fmt::to_string(text) + std::string(200, ' ')), expected);
  for (std::size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(read_live_rank(std::string(text.data(), length))) << "half of one";
}

// A terminal as far as `top` asks for one: a screen of characters that the sequences write to.
class PseudoTerminal {
 public:
  PseudoTerminal(const Words& command, const std::string& folder, unsigned short width,
                 unsigned short height) {
    winsize size{height, width, 0, 0};
    child_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (child_ != 0) return;
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    if (::chdir(folder.c_str()) == 0) ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~PseudoTerminal() {
    if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    ::close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  pid_t child() const { return child_; }
  tcflag_t modes() const {
    termios settings{};
    ::tcgetattr(master_, &settings);
    return settings.c_lflag;
  }
  void type(const std::string& keys) const {
    EXPECT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short width, unsigned short height) const {
    winsize size{height, width, 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
  // What it has written so far; then what is on the screen.
  const std::string& read() {
    char bytes[4096];
    int left = 0;
    while (::ioctl(master_, FIONREAD, &left) == 0 && left > 0) {
      const ssize_t count = ::read(master_, bytes, sizeof bytes);
      if (count <= 0) break;
      all_.append(bytes, static_cast<std::size_t>(count));
    }
    return all_;
  }
  bool shows(const std::string& text) {
    return comes_true([&] { return screen().find(text) != std::string::npos; });
  }
  // The latest whole picture, without its sequences.
  std::string screen() {
    const std::string& all = read();
    const std::size_t end = all.rfind("\x1b[J"),
                      begin = end == std::string::npos ? end : all.rfind("\x1b[H", end);
    if (begin == std::string::npos) return "";
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
      if (all[i] != '\x1b') {
        if (all[i] != '\r') text += all[i];
        continue;
      }
      while (!std::isalpha(static_cast<unsigned char>(all[i]))) ++i;
    }
    return text;
  }
  int wait() {
    int status = 0;
    if (!comes_true([&] {
          read();
          return ::waitpid(child_, &status, WNOHANG) == child_;
        }))
      return -1;
    read();
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  int master_ = -1;
  pid_t child_ = 0;
  std::string all_;
};

TEST(Top, WatchesARunAndLeavesTheTerminalAsItWas) {
  RunningRun run;
  ASSERT_TRUE(run.trains());
  ASSERT_TRUE(comes_true([&] { return run.has("out/live.rank0.json") && run.has("out/live.rank1.json"); }));
  const Words top = {recollect_binary(), "top", "out"};

  // Through a pipe: once, as lines.
  const Finished once = run.place().recollect({"top", "out"}, {{"LC_ALL", "C.UTF-8"}});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(once.out.find('\x1b'), std::string::npos) << once.out;
  for (const char* part :
       {"running", " of 100000 (", " tokens/s", "loss ", "\n   0 ", "\n   1 ", "device MiB"})
    EXPECT_NE(once.out.find(part), std::string::npos) << part << "\n" << once.out;

  for (const bool by_key : {true, false}) {
    PseudoTerminal terminal(top, run.place().folder().path(), 80, 24);
    const tcflag_t before = terminal.modes();
    ASSERT_TRUE(terminal.shows("running")) << terminal.read();
    EXPECT_TRUE(terminal.read().starts_with("\x1b[?1049h\x1b[?25l"));
    EXPECT_EQ(terminal.modes() & (ICANON | ECHO), 0u);
    EXPECT_TRUE(terminal.shows("\n   1 ")) << terminal.screen();
    terminal.resize(40, 8);
    EXPECT_TRUE(comes_true([&] {
      const std::string screen = terminal.screen();
      std::size_t widest = 0, width = 0;
      for (const char c : screen)
        widest = std::max(widest, width = c == '\n' ? 0 : width + ((c & 0xC0) != 0x80));
      return widest <= 40 && std::count(screen.begin(), screen.end(), '\n') < 8;
    })) << terminal.screen();
    if (by_key)
      terminal.type("q");
    else
      terminal.type("\x03");  // Ctrl-C
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_TRUE(terminal.read().ends_with("\x1b[?25h\x1b[?1049l")) << terminal.read();
    EXPECT_EQ(terminal.modes(), before);
  }
  run.end();
  const Finished after = run.place().recollect({"top", "out"});
  EXPECT_EQ(after.status, 0) << after.err;
  EXPECT_NE(after.out.find("its process is gone"), std::string::npos) << after.out;
}

TEST(Top, OfARunThatHasEndedHasWhatItReported) {
  const Workplace place;
  ASSERT_EQ(place.train({"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2"}).status, 0);
  for (const char* file : {"out/live.rank0.json", "out/live.rank1.json"})
    EXPECT_FALSE(std::filesystem::exists(place.file(file))) << file << " has stayed";
  const Finished top = place.recollect({"top", "out"});
  EXPECT_EQ(top.status, 0) << top.err;
  for (const char* part : {"  ended\n", "step 2 of 2 (100 %)", "\n   0 ", "\n   1 "})
    EXPECT_NE(top.out.find(part), std::string::npos) << part << "\n" << top.out;
  EXPECT_EQ(times_in(top.out, " %"), 1 + 4) << "each rank waited for ranks and for streams\n" << top.out;
}

TEST(Top, OfNoRunSaysSo) {
  const Workplace place;
  EXPECT_EQ(place.recollect({"top"}).status, 2);
  EXPECT_EQ(place.recollect({"top", "a", "b"}).status, 2);
  const Finished nowhere = place.recollect({"top", "nowhere"});
  EXPECT_EQ(nowhere.status, 3);
  EXPECT_NE(nowhere.err.find("nowhere holds no run"), std::string::npos) << nowhere.err;
}

}  // namespace
}  // namespace recollect::test::top_test
