// The command line. Prints an Error once per rank and turns it into the exit code.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "comm/bootstrap.h"
#include "comm/mpi.h"
#include "launch/commands.h"

namespace {

void run(const recollect::Words& words, std::unique_ptr<recollect::MpiEnvironment>& mpi) {
  using recollect::Error;
  using recollect::ExitCode;
  if (words.empty()) throw Error(ExitCode::kConfiguration, "no command given", recollect::usage());
  for (const recollect::Command& command : recollect::commands())
    if (words.front() == command.name) return command.run({words.begin() + 1, words.end()}, mpi);
  throw Error(ExitCode::kConfiguration, fmt::format("unknown command '{}'", words.front()),
              recollect::usage());
}

std::optional<int> rank_of_several() {
  try {
    const auto who = recollect::discover_ranks();
    return who && who->size > 1 ? std::optional(who->rank) : std::nullopt;
  } catch (const recollect::Error&) {
    return std::nullopt;
  }
}

int fail(recollect::ExitCode code, const std::string& what, const std::string& hint) {
  const std::optional<int> rank = rank_of_several();
  std::string text = (rank ? fmt::format("recollect: rank {}: ", *rank) : "recollect: ") + what + "\n";
  if (!hint.empty()) text += "  " + hint + "\n";
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
  // A launcher ends with the status of the first process that ends: let the rank whose error it was be that
  // one.
  if (code == recollect::ExitCode::kPeerLost && rank) std::this_thread::sleep_for(std::chrono::seconds(1));
  recollect::mpi_abort(static_cast<int>(code));  // returns where MPI was never started
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  using recollect::ExitCode;
  std::unique_ptr<recollect::MpiEnvironment> mpi;
  try {
    const recollect::Words words(argv + 1, argv + argc);
    const bool launches = !words.empty() && words.front() == "run";  // then the rest may be a program's
    const auto named = std::find_if(
        recollect::commands().begin(), recollect::commands().end(),
        [&](const recollect::Command& command) { return !words.empty() && words.front() == command.name; });
    const auto asks = [&](const char* option) {
      return !launches && std::find(words.begin(), words.end(), option) != words.end();
    };
    if (asks("--version")) {
      fmt::print("recollect {}\n", RECOLLECT_VERSION);
    } else if (asks("--help") || asks("-h")) {
      fmt::print("{}", named == recollect::commands().end() ? recollect::usage() : usage_of(*named));
    } else {
      run(words, mpi);
    }
    return 0;
  } catch (const recollect::Error& error) {
    return fail(error.code(), error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kHostMemory, "out of host memory", "");
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, error.what(), "this is a bug in recollect");
  }
}
