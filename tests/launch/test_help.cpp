// What the program says of itself: help that fits a screen and names what the parsers take, neither more nor less; the
// manual page; version and commit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include <boost/program_options.hpp>

#include "launch/cli/commands.h"
#include "launch/cli/help_page.h"
#include "launch/cli/man_page.h"
#include "launch/config/keys.h"
#include "launch/run/options.h"
#include "tests/launch/process.h"

namespace recollect::test::help_test {
namespace {

namespace fs = std::filesystem;

const std::string kSource = RECOLLECT_SOURCE_DIR;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void expect_a_screen(const std::string& page) {
  const std::vector<std::string> lines = lines_in(page);
  EXPECT_LE(lines.size(), 24u) << page;
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_TRUE(page.starts_with("usage: recollect ")) << page;
  EXPECT_TRUE(page.find("\nexample: ") != std::string::npos) << page;
}

TEST(Help, FitsAScreenAndHasAnExample) {
  expect_a_screen(usage());
  for (const Command& command : commands()) {
    expect_a_screen(usage_of(command));
    const std::vector<std::string> hint = lines_in(usage_hint(&command));
    EXPECT_EQ(hint.size(), 2u) << "behind a line that says what is wrong";
    for (const std::string& line : hint) EXPECT_LE(line.size(), 78u) << line;
  }
}

// Without dashes in front; "help" is every command's.
std::set<std::string> options_in(const std::string& text) {
  static const std::regex option("(^|[\\s\\[|])--([a-z][a-z-]*)");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at)
    if ((*at)[2] != "help") names.insert((*at)[2]);
  return names;
}

std::set<std::string> options_of(const Command& command) {
  std::set<std::string> names;
  const OptionTable table = command.option_table();
  for (const auto& option : table.options())
    if (option->long_name() != "help") names.insert(option->long_name());
  return names;
}

// What a command complains of, given that option before one that none has.
std::string complaint(const Command& command, const std::string& option, bool with_value) {
  Words words = {"--" + option};
  if (with_value) words[0] += "=1";
  words.push_back("--no-such-option");
  std::unique_ptr<MpiEnvironment> mpi;
  try {
    if (command.name == "run")
      launcher::read_run_options(words);
    else
      command.run(words, mpi);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Help, NamesTheOptionsThatACommandTakesAndNoOther) {
  std::map<std::string, bool> all = {{"word", true}, {"dance", false}};  // and whether they have a value
  for (const Command& command : commands()) {
    const OptionTable table = command.option_table();
    for (const auto& option : table.options())
      if (option->long_name() != "help") all[option->long_name()] = !value_name(*option).empty();
  }
  EXPECT_GT(all.size(), 40u);
  for (const Command& command : commands()) {
    if (!command.run) continue;
    const std::set<std::string> listed = options_of(command);
    std::string page = usage_of(command);
    page = page.substr(0, page.find("\nexample: "));
    if (const std::string notes(command.notes); !notes.empty())
      page = page.substr(0, page.find(notes.substr(0, 20)));
    EXPECT_EQ(options_in(page), listed) << page;
    for (const auto& [name, with_value] : all) {
      const auto begins = [&, &option = name](const std::string& whole) { return whole.starts_with(option); };
      const bool whole = listed.contains(name);  // or cut short where one is left
      const bool taken = whole || std::count_if(listed.begin(), listed.end(), begins) == 1;
      const std::string& meant = taken && !whole ? *std::find_if(listed.begin(), listed.end(), begins) : name;
      const std::string said = complaint(command, name, all.at(meant));
      EXPECT_EQ(said.find("no-such-option") != std::string::npos, taken)
          << command.name << " --" << name << ": " << said;
    }
  }
}

TEST(Help, ExamplesAreOfThatCommand) {
  for (const Command& command : commands()) {
    if (!command.run) continue;
    const std::string example(command.example);
    const std::string name = "recollect " + std::string(command.name);
    const std::size_t at = example.find(name);
    ASSERT_NE(at, std::string::npos) << example;
    if (command.name == "run" || command.name == "completion words") continue;
    for (const std::string& option : options_in(example))
      EXPECT_TRUE(options_of(command).contains(option)) << example;
    std::istringstream words(example.substr(at + name.size()));
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('='), dot = word.find('.');
      if (equals == std::string::npos) continue;
      const std::string section = dot < equals ? word.substr(0, dot) : "";
      const std::string key =
          word.substr(section.empty() ? 0 : dot + 1, equals - (section.empty() ? 0 : dot + 1));
      EXPECT_NE(KeyTable().find(section, key), nullptr) << word;
    }
  }
}

TEST(Help, IsOnStandardOutputWhereverItStands) {
  const Workplace place;
  const auto says = [&](const Words& words, const std::string& page) {
    const Finished help = place.recollect(words);
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.out, page);
    EXPECT_EQ(help.err, "");
  };
  says({"--help"}, usage());
  says({"estimate", "c.yaml", "--help"}, usage_of(*find_command({"estimate"}).command));
  says({"config", "-h"}, usage_of(*find_command({"config"}).command));
  says({"snapshot", "verify", "--help"}, usage_of(*find_command({"snapshot", "verify"}).command));
  says({"run", "--help"}, usage_of(*find_command({"run"}).command));
}

TEST(Version, SaysWhatTheProgramIsMadeOf) {
  const Workplace place;
  const Finished version = place.recollect({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.err, "");
  const std::regex expected(
      "recollect \\d+\\.\\d+\\.\\d+, commit ([0-9a-f]{12}(\\+changes)?|unknown)\n"
      "compiler       (g\\+\\+|clang) \\d+\\..*\n"
      "backends       cpu, reference(, cuda \\(CUDA \\d+\\.\\d+, (cuDNN \\d.* by cudnn-frontend \\d.*|no "
      "cuDNN), NCCL "
      "\\d+\\.\\d+ or newer\\))?\n"
      "instructions   compiled for \\w+, kernels for \\w+(, \\w+)*; this processor runs \\w+\n"
      "communicators  self, local \\(shared memory\\), mpi \\(.*[0-9]\\.[0-9].*\\), tcp\n");
  EXPECT_TRUE(std::regex_match(version.out, expected)) << version.out;
  EXPECT_TRUE(!fs::exists(kSource + "/.git") || version.out.find("unknown") == std::string::npos)
      << version.out;
}

// In a repository of its own, whose commits come and go.
TEST(Version, TheCommitIsLookedUpAndWrittenWhereItIsAnother) {
  const Workplace place;
  const std::string git = "git -C r -c user.name=a -c user.email=a@b -c commit.gpgsign=false ";
  const auto shell = [&](const std::string& commands) {
    const Finished done = Process({"sh", "-ec", commands}, place.folder().path()).wait(Workplace::kBound);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  };
  if (shell("command -v git cmake || true").find("git\n") == std::string::npos)
    GTEST_SKIP() << "there is no git";
  const std::string look = "cmake -DFROM=r -DTO=commit.cpp -P " + kSource + "/launch/cli/commit.cmake; ";
  const std::string said = "sed -n 's/.*kCommit = //p' commit.cpp; ";
  EXPECT_EQ(shell("mkdir r; " + look + said), "\"unknown\";\n");
  const std::string make = "git init -q r; echo a > r/a; " + git + "add a; " + git + "commit -qm one; ";
  const std::string head = git + "rev-parse --short=12 HEAD; ";
  std::string commit = shell(make + head);
  commit.pop_back();
  EXPECT_EQ(shell(look + said), "\"" + commit + "\";\n");
  EXPECT_EQ(shell("touch -d 2000-01-01 commit.cpp; " + look + "stat -c %Y commit.cpp"),
            shell("date -d 2000-01-01 +%s"))
      << "written though it is the same";
  EXPECT_EQ(shell("echo b >> r/a; touch r/new; " + look + said), "\"" + commit + "+changes\";\n");
  std::string next = shell(git + "commit -qam two; " + head);
  next.pop_back();
  EXPECT_NE(next, commit);
  EXPECT_EQ(shell(look + said), "\"" + next + "\";\n");
}

TEST(ManPage, HoldsEveryCommandOptionKeyAndExitCode) {
  const std::string page = man_page();
  const auto plain = [](std::string text) {
    for (std::size_t at = text.find('-'); at != std::string::npos; at = text.find('-', at + 2))
      text.insert(at, "\\");
    return text;
  };
  for (const Command& command : commands()) {
    if (!command.run) continue;
    const std::size_t at = page.find(".SS recollect " + std::string(command.name));
    ASSERT_NE(at, std::string::npos) << command.name;
    const std::string part = page.substr(at, page.find("\n.S", at + 1) - at);
    const OptionTable table = command.option_table();
    for (const auto& option : table.options())
      EXPECT_NE(part.find(plain("--" + option->long_name())), std::string::npos) << option->long_name();
    EXPECT_NE(part.find(plain(std::string(command.example))), std::string::npos) << part;
  }
  const KeyTable keys;
  for (const ConfigKey& key : keys.keys())
    EXPECT_NE(page.find("\n\\fB" + plain(key.path()) + "\\fR\n"), std::string::npos) << key.path();
  int rows = 0;
  const std::string document = TemporaryFolder::read(kSource + "/docs/launching.md");
  static const std::regex row("\\n\\| (\\d[\\d, ]*) \\| ([^|]*) (?=\\|)");
  for (std::sregex_iterator it(document.begin(), document.end(), row), end; it != end; ++it, ++rows)
    EXPECT_NE(page.find("\\fB" + (*it)[1].str() + "\\fR\n" + plain((*it)[2]) + ".\n"), std::string::npos)
        << (*it)[2];
  EXPECT_EQ(rows, 12);
}

TEST(ManPage, IsWhatFormattersTake) {
  const Workplace place;
  const Finished printed = place.recollect({"man"});
  ASSERT_EQ(printed.status, 0) << printed.err;
  ASSERT_EQ(printed.out, man_page());
  place.folder().write("recollect.1", printed.out);
  const Finished lint =
      Process({"sh", "-c",
               "export LC_ALL=C.UTF-8; "
               "if command -v groff >/dev/null; then groff -man -Tutf8 -P-cbou -ww recollect.1 >page; fi; "
               "if command -v mandoc >/dev/null; then mandoc -T lint -W error recollect.1; fi"},
              place.folder().path())
          .wait(Workplace::kBound);
  EXPECT_EQ(lint.out + lint.err, "");
  if (!fs::exists(place.file("page"))) GTEST_SKIP() << "there is no groff";
  EXPECT_NE(TemporaryFolder::read(place.file("page")).find("\n       training.max_steps\n"),
            std::string::npos);
}

}  // namespace
}  // namespace recollect::test::help_test
