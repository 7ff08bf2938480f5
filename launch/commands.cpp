#include "launch/commands.h"

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "launch/calibrate.h"
#include "launch/config/read.h"
#include "launch/estimate_command.h"
#include "launch/explain.h"
#include "launch/run/run_command.h"
#include "launch/tokenize.h"
#include "launch/train.h"
#include "launch/world.h"

namespace recollect {

namespace {

void train_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  const Config config = read_config_words("train", parse_options(words));
  const ReportSignal signal;
  run_ranks(config, mpi, [&](Communicator& world) { train_rank(config, world, signal); });
}

constexpr Command kCommands[] = {
    {"train", "CONFIG.yaml [section.key=value ...]", "train what CONFIG.yaml describes", train_command},
    {"run", "[flags] PROGRAM [arguments]", "start PROGRAM, or train, as the ranks of this node (run --help)",
     run_command},
    {"estimate", "CONFIG.yaml [section.key=value ...] [--json] [--compare | --max-micro-batch]",
     "foretell memory and step time without training", estimate_command},
    {"explain", "CONFIG.yaml [section.key=value ...]", "print the checkpointing plan and every op of a step",
     explain_command},
    {"calibrate", "[--out FILE] [--disk FOLDER]", "measure this machine for device.model=FILE",
     calibrate_command},
    {"tokenize",
     "--tokenizer FILE|FOLDER --output FILE INPUT... [--format llm.c|headerless|megatron]\n"
     "           [--dtype uint16|uint32] [--key text] [--end-of-document TOKEN|none] [--threads N]",
     "make a token file of text (*.txt, *.jsonl, folders)", tokenize_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string usage() {
  std::string text;
  for (const Command& command : commands())
    text += fmt::format("{} recollect {} {}\n           {}\n", text.empty() ? "usage:" : "      ",
                        command.name, command.arguments, command.help);
  return text +
         "\n"
         "--help prints this, --version the version. Several ranks: mpirun -np N recollect train ...\n"
         "with N = data_parallel_size x tensor_parallel_size.\n";
}

Words parse_options(const Words& words, const boost::program_options::options_description& own) {
  namespace options = boost::program_options;
  Words rest, sets;
  options::options_description all;
  all.add(own).add_options()("set", options::value(&sets)->composing())("word", options::value(&rest));
  options::positional_options_description positional;
  positional.add("word", -1);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(words).options(all).positional(positional).run(), values);
    options::notify(values);
  } catch (const options::error& error) {
    throw Error(ExitCode::kConfiguration, error.what(), usage());
  }
  rest.insert(rest.end(), sets.begin(), sets.end());
  return rest;
}

Config read_config_words(const std::string& command, const Words& words) {
  if (words.empty())
    throw Error(ExitCode::kConfiguration, fmt::format("{} needs a configuration file", command), usage());
  return read_config(words.front(), {words.begin() + 1, words.end()});
}

}  // namespace recollect
