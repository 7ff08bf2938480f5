// The options of `recollect run`, checked completely before anything is started. The flags are torchrun's and
// mean the same. They may have dashes or underscores, and long flags may be shortened to a unique prefix.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/config/words.h"

namespace recollect::launcher {

enum class Stream { kOut = 0, kError = 1 };

struct RankOutput {
  bool shown[2] = {true, true};   // on the launcher's own streams, by Stream
  bool kept[2] = {false, false};  // in a file, by Stream
};

struct RunOptions {
  int ranks = 1;
  int max_restarts = 0;
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds grace{30000};
  std::string run_id;  // valid as the name of a folder
  std::string master_addr = "127.0.0.1";
  int master_port = 0;             // 0: a free port for every attempt
  std::string log_dir;             // empty: a temporary folder, if files are kept
  std::vector<RankOutput> output;  // by rank
  bool with_python = true;         // for programs that are Python scripts
  Words program;                   // the program and its arguments, as given

  bool keeps_files() const;
};

// Throws kConfiguration for options that cannot work; for an unknown flag it suggests the nearest one.
RunOptions read_run_options(const Words& words);

OptionTable run_options();

}  // namespace recollect::launcher
