// The command line. Prints an Error once per rank and turns it into the exit code.
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "comm/bootstrap.h"
#include "comm/mpi.h"
#include "launch/config/read.h"
#include "launch/train.h"
#include "launch/world.h"

namespace {

namespace options = boost::program_options;

constexpr const char* kUsage =
    "usage: recollect train CONFIG.yaml [section.key=value ...]\n"
    "\n"
    "Trains what CONFIG.yaml describes. Run alone, or as mpirun -np N recollect train ...\n"
    "with N = data_parallel_size x tensor_parallel_size.\n";

struct CommandLine {
  std::string command;
  std::vector<std::string> words;  // configuration file, then overrides
  bool help = false, version = false;
};

CommandLine parse(int argc, char** argv) {
  CommandLine line;
  std::vector<std::string> sets;
  options::options_description visible("options");
  visible.add_options()("help,h", options::bool_switch(&line.help), "print this")(
      "version", options::bool_switch(&line.version), "print the version")(
      "set", options::value(&sets)->composing(), "section.key=value, as without --set");
  options::options_description hidden;
  hidden.add_options()("command", options::value(&line.command))("words", options::value(&line.words));
  options::positional_options_description positional;
  positional.add("command", 1).add("words", -1);
  options::options_description all;
  all.add(visible).add(hidden);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    options::notify(values);
  } catch (const options::error& error) {
    throw recollect::Error(recollect::ExitCode::kConfiguration, error.what(), kUsage);
  }
  line.words.insert(line.words.end(), sets.begin(), sets.end());
  return line;
}

void run(const CommandLine& line, std::unique_ptr<recollect::MpiEnvironment>& mpi) {
  using recollect::Error;
  using recollect::ExitCode;
  if (line.command != "train")
    throw Error(ExitCode::kConfiguration,
                line.command.empty() ? "no command given" : fmt::format("unknown command '{}'", line.command), kUsage);
  if (line.words.empty()) throw Error(ExitCode::kConfiguration, "train needs a configuration file", kUsage);
  const std::vector<std::string> overrides(line.words.begin() + 1, line.words.end());
  const recollect::Config config = recollect::read_config(line.words.front(), overrides);
  recollect::run_ranks(config, mpi, [&](recollect::Communicator& world) { recollect::train_rank(config, world); });
}

std::string rank_label() {
  try {
    const auto who = recollect::discover_ranks();
    return who && who->size > 1 ? fmt::format("recollect: rank {}: ", who->rank) : "recollect: ";
  } catch (const recollect::Error&) {
    return "recollect: ";
  }
}

int fail(recollect::ExitCode code, const std::string& what, const std::string& hint) {
  std::string text = rank_label() + what + "\n";
  if (!hint.empty()) text += "  " + hint + "\n";
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
  recollect::mpi_abort(static_cast<int>(code));  // returns where MPI was never started
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  using recollect::ExitCode;
  std::unique_ptr<recollect::MpiEnvironment> mpi;
  try {
    const CommandLine line = parse(argc, argv);
    if (line.version) {
      fmt::print("recollect {}\n", RECOLLECT_VERSION);
    } else if (line.help) {
      fmt::print("{}", kUsage);
    } else {
      run(line, mpi);
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
