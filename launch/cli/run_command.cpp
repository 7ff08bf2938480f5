#include "launch/cli/run_command.h"

#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "comm/local/rendezvous.h"
#include "engine/core/printable.h"
#include "launch/cli/commands.h"
#include "launch/cli/help_page.h"
#include "launch/cli/train_command.h"
#include "launch/ranks/inputs.h"
#include "launch/run/attempt.h"
#include "launch/run/private_folder.h"
#include "launch/run/processes.h"

namespace recollect {

namespace launcher {
namespace {

constexpr int kHurry = 1000;  // milliseconds

// FOLDER/RUN_xxxxxx, new.
std::string make_log_folder(const RunOptions& options) {
  std::error_code error;
  const std::filesystem::path base(options.log_dir.empty() ? temporary_folder() : options.log_dir);
  std::filesystem::create_directories(base, error);
  std::string path = base / (options.run_id + "_XXXXXX");
  if (error || !::mkdtemp(path.data()))
    throw Error(ExitCode::kStorage,
                fmt::format("cannot make the folder {}: {}", path,
                            std::generic_category().message(error ? error.value() : errno)),
                "--log-dir says where logs go");
  return path;
}

// The last of what is to be shown. Who wants the end does not want to wait for a reader who is away.
void flush(Console& console, Signals& signals, bool in_a_hurry) {
  while (console.waits_for() >= 0) {
    pollfd events[] = {{console.waits_for(), POLLOUT, 0}, {signals.descriptor(), POLLIN, 0}};
    if (::poll(events, 2, in_a_hurry ? kHurry : -1) == 0) return;
    const std::vector<int> came = signals.take();
    in_a_hurry = in_a_hurry || std::any_of(came.begin(), came.end(), asks_to_end);
    console.write_some();
  }
}

// All attempts, until one is the last.
Outcome attempt_all(Run& run, const std::string& shared_memory) {
  for (int number = 0;; ++number) {
    const Outcome outcome = Attempt(run, number).carry_out();
    ::unlink(shared_memory.c_str());  // where ranks were ended while they met
    if (!outcome.failed || outcome.interrupted || number == run.options.max_restarts) return outcome;
    run.console.say(
        fmt::format("restart {} of {}, since {}", number + 1, run.options.max_restarts, outcome.why));
  }
}

// What is wrong with a configuration, and which of its data is not there, is said once, before there are ranks of which
// each would say it.
void check_training(const Words& program) {
  const auto asks = [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "--version";
  };
  if (program.front() != "train" || std::any_of(program.begin(), program.end(), asks)) return;
  const Words words(program.begin() + 1, program.end());
  refuse_configuration_option(*find_command({"train"}).command, words);
  const auto file = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return !word.starts_with('-'); });
  if (file == words.end()) return;
  std::error_code unknown;
  const std::filesystem::file_type kind = std::filesystem::status(*file, unknown).type();
  const bool is_read_once = kind == std::filesystem::file_type::fifo ||
                            kind == std::filesystem::file_type::character;  // which is for the ranks
  if (!is_read_once) check_data_files(read_train_words(words));
}

int launch(const Words& words) {
  Signals signals;  // first: none of them ends a launcher that is still reading its flags
  const RunOptions options = read_run_options(words);
  if (options.program.empty()) {
    fmt::print("{}", usage_of(*find_command({"run"}).command));
    return 0;
  }
  std::vector<std::string> own;
  for (const Command& command : commands())
    if (!command.of_two_words()) own.emplace_back(command.name);
  const Program program = find_program(options.program, own, options.with_python);
  if (program.ours) check_training(options.program);
  adopt_orphans();
  std::vector<pid_t> spared = children();
  const PrivateFolder folder;
  const RunIdentity identity{options.run_id + "." + random_hex(8), folder.token(), folder.token_file()};
  const std::string shared_memory = "/dev/shm" + local::segment_name(identity.run_id);
  const Guard guard({shared_memory, folder.token_file(), folder.path()});
  spared.push_back(guard.pid());
  Console console;
  if (const int threads = omp_threads_to_set(options);
      threads > 0 && !program.ours)  // ours have device.threads
    console.say(fmt::format("OMP_NUM_THREADS={} for each of {} ranks; set it to choose another number",
                            threads, options.ranks));
  Run run{options, program, identity, options.keeps_files() ? make_log_folder(options) : "",
          spared,  signals, console,  guard};
  if (!run.log_folder.empty()) console.say("logs in " + printable(run.log_folder));
  const Outcome outcome = attempt_all(run, shared_memory);
  flush(console, signals, outcome.interrupted);
  return outcome.status;
}

}  // namespace
}  // namespace launcher

void run_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const int status = launcher::launch(words);
  if (status != 0) std::exit(status);  // the ranks' own word, which may be no ExitCode
}

}  // namespace recollect
