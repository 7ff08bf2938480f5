#include "launch/cli/train_command.h"

#include <atomic>
#include <cstdlib>

#include <boost/program_options.hpp>

#include "launch/doctor/machine_rates.h"
#include "launch/ranks/world.h"
#include "launch/train/train.h"

namespace recollect {

namespace {

struct TrainWords {
  bool overwrite = false;

  OptionTable options();
};

OptionTable TrainWords::options() {
  OptionTable table = key_options();
  table.add_options()("overwrite", boost::program_options::bool_switch(&overwrite),
                      "replaces the files of another run in output_dir, as overwrite=true does");
  return table;
}

}  // namespace

OptionTable train_options() { return TrainWords().options(); }

Config read_train_words(const Words& words) {
  TrainWords given;
  Words rest = parse_options(words, given.options());
  if (given.overwrite && !rest.empty()) rest.emplace_back("overwrite=true");
  return read_config_words("train", rest);
}

void train_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  const StartClock clock;
  const Config config = read_train_words(words);
  std::atomic<bool> preempted = false;
  {
    const ReportSignal signal;
    RankWatch ranks;
    Preemption preemption(ranks);
    run_ranks(config, mpi, [&](Communicator& world) {
      const LearnRates learn = [](Config& of, Communicator& with) { return learn_machine_rates(of, with); };
      if (train_rank(config, world, signal, preemption, ranks, clock, learn) == ExitCode::kPreempted)
        preempted = true;
    });
  }
  if (!preempted) return;
  mpi.reset();  // an orderly end for all ranks
  std::exit(static_cast<int>(ExitCode::kPreempted));
}

}  // namespace recollect
