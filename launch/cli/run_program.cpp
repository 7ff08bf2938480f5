#include "launch/cli/run_program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "comm/bootstrap.h"
#include "comm/mpi.h"
#include "engine/core/printable.h"
#include "engine/io/spelling.h"
#include "launch/cli/commands.h"
#include "launch/cli/help_page.h"
#include "launch/cli/version.h"
#include "launch/report/report_signal.h"
#include "launch/train/preemption.h"

namespace recollect {

namespace {

constexpr std::chrono::seconds kForOthers{1}, kForTheFirst{3};

std::string did_you_mean(const std::string& word, const std::vector<std::string_view>& names) {
  const std::string meant = nearest(word, names);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

// What other programs call what a command of ours does; "" where there is none.
std::string_view called_elsewhere(std::string_view word) {
  struct Other {
    std::string_view word, write;
  };
  constexpr Other kOthers[] = {
      {"fit", "train CONFIG.yaml"},
      {"finetune", "train CONFIG.yaml"},
      {"pretrain", "train CONFIG.yaml"},
      {"evaluate", "train CONFIG.yaml training.max_steps=0"},
      {"eval", "train CONFIG.yaml training.max_steps=0"},
      {"test", "train CONFIG.yaml training.max_steps=0"},
      {"resume", "train CONFIG.yaml resume=auto"},
      {"launch", "run --nproc-per-node N train CONFIG.yaml"},
      {"torchrun", "run --nproc-per-node N train CONFIG.yaml"},
      {"inference", "generate --model FOLDER --prompt TEXT"},
      {"chat", "generate --model FOLDER --prompt TEXT"},
      {"import", "config import FILE"},
      {"convert", "snapshot convert SOURCE DESTINATION --to hf"},
      {"benchmark", "profile CONFIG.yaml"},
      {"plan", "explain CONFIG.yaml"},
      {"env", "doctor"},
      {"version", "--version"},
      {"help", "--help"},
  };
  const auto found = std::find_if(std::begin(kOthers), std::end(kOthers),
                                  [&](const Other& other) { return other.word == word; });
  return found == std::end(kOthers) ? "" : found->write;
}

bool is_option(const std::string& word) { return word.starts_with('-'); }

// The file that a command line without a command is about; "" where there is none.
std::string lonely_configuration(const Words& words) {
  for (const std::string& word : words) {
    const std::string file = word.substr(is_option(word) ? word.find('=') + 1 : 0);
    if (file.ends_with(".yaml") || file.ends_with(".yml")) return file;
    if (!is_option(word)) return "";
  }
  return "";
}

[[noreturn]] void refuse_command(const Words& words) {
  if (const std::string file = lonely_configuration(words); !file.empty())
    throw UsageError(fmt::format("no command given; did you mean recollect train {}{}?", file,
                                 words.size() > 1 && words.front() == file ? " ..." : ""));
  if (is_option(words.front()))
    throw UsageError(fmt::format("unknown option '{}'{}", words.front(),
                                 did_you_mean(words.front(), {"--version", "--help"})));
  if (const std::string_view write = called_elsewhere(words.front()); !write.empty())
    throw UsageError(fmt::format("unknown command '{}'; write recollect {}", words.front(), write));
  std::vector<std::string_view> names;
  for (const Command& command : commands())
    if (!command.of_two_words()) names.push_back(command.name);
  throw UsageError(fmt::format("unknown command '{}'{}", words.front(), did_you_mean(words.front(), names)));
}

[[noreturn]] void refuse_second_word(const Command& first, const Words& words) {
  const std::vector<std::string_view> names = second_words(first);
  if (words.size() < 2)
    throw UsageError(fmt::format("{} needs one more word: {}", first.name, fmt::join(names, ", ")));
  throw UsageError(
      fmt::format("unknown word '{}' after {}{}", words[1], first.name, did_you_mean(words[1], names)));
}

void run_command_of(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  if (words.empty()) throw UsageError("no command given");
  const auto [command, taken] = find_command(words);
  if (!command) refuse_command(words);
  if (!command->run) refuse_second_word(*command, words);
  const Words rest(words.begin() + static_cast<std::ptrdiff_t>(taken), words.end());
  refuse_configuration_option(*command, rest);
  command->run(rest, mpi);
}

// So that no file of ours takes the number of a standard stream, and with it what is printed.
void open_missing_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
}

// Matrix products pack operands into 148 KiB of their thread's stack; this limit sets the stack of all threads.
void check_stack() {
  constexpr rlim_t kKib = 1024, kLeast = 512 * kKib;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw Error(ExitCode::kHostMemory,
              fmt::format("a thread's stack may have {} KiB here, and this program needs {}",
                          limit.rlim_cur / kKib, kLeast / kKib),
              "raise the limit: ulimit -s 8192");
}

// What training says or is asked does not end it: a reader who goes away and a limit on the size of files are
// noticed where something is written, and who asks for a report, or for the end, before that can be waits for it.
void outlive_diagnostics() {
  ReportSignal::hold();
  Preemption::hold();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

std::optional<int> rank_of_several() {
  try {
    const auto who = discover_ranks();
    return who && who->size > 1 ? std::optional(who->rank) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

int fail(ExitCode code, const std::string& what, const std::string& hint) {
  const std::optional<int> rank = rank_of_several();
  // A mistake in a configuration is every rank's: once the first has said what it is, launchers end the others.
  if (code == ExitCode::kConfiguration && rank && *rank > 0 && !std::getenv("RECOLLECT_LAUNCH"))
    std::this_thread::sleep_for(kForTheFirst);
  std::string text = (rank ? fmt::format("recollect: rank {}: ", *rank) : "recollect: ") + what + "\n";
  if (!hint.empty()) text += "  " + hint + "\n";
  std::fflush(stdout);
  std::fputs(printable_lines(text).c_str(), stderr);
  // Other launchers than ours end with the status of the first process that ends: let the rank whose error it was
  // be that one.
  if (code == ExitCode::kPeerLost && rank && !std::getenv("RECOLLECT_LAUNCH"))
    std::this_thread::sleep_for(kForOthers);
  mpi_abort(static_cast<int>(code));  // returns where MPI was never started
  return static_cast<int>(code);
}

// Of an error that all ranks have. The one that tells it is given time; most of the others are ended meanwhile.
int fail_as_another(ExitCode code) {
  std::this_thread::sleep_for(kForOthers);
  return fail(code, "ends for the reason that another rank gives", "");
}

// Of a thread that cannot be made, above all: the libraries' one word for it.
bool lacks_resources(const std::error_code& error) {
  return error == std::errc::resource_unavailable_try_again || error == std::errc::not_enough_memory;
}

// Where memory ends in what may not throw, a destructor say, nobody can catch it: this says so all the same.
[[noreturn]] void end_of_program() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kText = "recollect: out of host memory\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
    mpi_abort(static_cast<int>(ExitCode::kHostMemory));
    ::_exit(static_cast<int>(ExitCode::kHostMemory));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recollect: %s\n", error.what());
  }
  std::abort();
}

}  // namespace

int run_program(int argc, char** argv, std::string_view commit) {
  std::set_terminate(end_of_program);
  open_missing_streams();
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) outlive_diagnostics();
  std::unique_ptr<MpiEnvironment> mpi;
  const Words words(argv + std::min(argc, 1), argv + argc);
  try {
    const bool launches = !words.empty() && words.front() == "run";  // then the rest may be a program's
    const Command* const named = find_command(words).command;
    const auto end = std::find(words.begin(), words.end(), "--");
    const auto asks = [&](const char* option) {
      return !launches && std::find(words.begin(), end, option) != end;
    };
    if (asks("--version")) {
      fmt::print("{}", version_text(commit));
    } else if (asks("--help") || asks("-h")) {
      fmt::print("{}", named ? usage_of(*named) : usage());
    } else {
      check_stack();
      run_command_of(words, mpi);
    }
    return 0;
  } catch (const UsageError& error) {
    return fail(error.code(), error.what(), usage_hint(find_command(words).command));
  } catch (const SharedError& error) {
    return error.told_by_another() ? fail_as_another(error.code())
                                   : fail(error.code(), error.what(), error.hint());
  } catch (const Error& error) {
    return fail(error.code(), error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kHostMemory, "out of host memory", "");
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code gone;
    const std::filesystem::path here = std::filesystem::current_path(gone);
    return fail(
        ExitCode::kStorage, fmt::format("{}: {}", printable(error.path1().string()), error.code().message()),
        here.empty() ? "the folder that the command was started in is gone: start it in another" : "");
  } catch (const std::system_error& error) {
    if (lacks_resources(error.code()))
      return fail(
          ExitCode::kHostMemory, fmt::format("the system gives no more threads or memory: {}", error.what()),
          "raise the limits on threads (ulimit -u, pids.max of the control group) and on memory (ulimit -v), "
          "or start fewer ranks here");
    return fail(ExitCode::kInternal, error.what(), "this is a bug in recollect");
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, error.what(), "this is a bug in recollect");
  }
}

}  // namespace recollect
