// Ranks that read other files, or run other code, train on without any sign of it: what each has is compared
// before the first step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Every file that a run of this configuration starts from.
std::vector<std::string> files_read(const Config& config);

// Error kInput where files that keys name, of data to train on or to evaluate with or of a tokenizer, are not there; all of
// them, at the places of the keys, or of the entries of a list.
void check_data_files(const Config& config);

// Of the data to train on, its tokenizer and the model that adapters are of, by key, what the files hold in a word. It is
// another where they hold something else, wherever they are.
std::map<std::string, std::string> contents_of_inputs(const Config& config);

// Collective. Error kRanksDisagree on every rank, naming files and ranks, where the ranks have different
// weights to start from, different data to train on or to evaluate with, or different code. Large files are
// compared by samples (engine/io/file_digest.h).
void check_inputs_agree(const Config& config, Communicator& world);

}  // namespace recollect
