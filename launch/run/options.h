// What `recollect run` was asked to do, checked in full before anything is started. The flags are torchrun's
// and mean what they mean there; each word is spelled with dashes or underscores, and long flags may be cut
// short where one flag is left.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/config/words.h"

namespace recollect::launcher {

enum class Stream { kOut = 0, kError = 1 };

struct RankOutput {
  bool shown[2] = {true, true};   // on the launcher's own stream, by Stream
  bool kept[2] = {false, false};  // in a file of its own
};

struct RunOptions {
  int ranks = 1;
  int max_restarts = 0;
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds grace{30000};
  std::string run_id;  // fit for the name of a folder
  std::string master_addr = "127.0.0.1";
  int master_port = 0;             // 0: a free one for every attempt
  std::string log_dir;             // empty: a temporary one, where files are asked for
  std::vector<RankOutput> output;  // by rank
  bool with_python = true;         // for programs that are Python scripts
  Words program;                   // the program and its arguments, as given

  bool keeps_files() const;
};

// Error kConfiguration for whatever cannot be done, with the nearest flag for one that does not exist.
RunOptions read_run_options(const Words& words);

OptionTable run_options();

}  // namespace recollect::launcher
