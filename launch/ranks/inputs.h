// Compares the input files and the code of all ranks before the first step. Ranks with different files or
// different code would train without any visible error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// All files that a run of this configuration reads at its start.
std::vector<std::string> files_read(const Config& config);

// Throws kInput if files of the training data, the evaluation data or a tokenizer do not exist. The error
// lists all of them, each with the place of its key or list entry in the configuration.
void check_data_files(const Config& config);

// A digest of the file contents by key, for the training data, its tokenizer, and the base model of adapters.
// It depends on the contents of the files, not on their location.
std::map<std::string, std::string> contents_of_inputs(const Config& config);

// Collective. Throws kRanksDisagree on every rank if ranks have different initial weights, training data,
// evaluation data or code; the error names the files and the ranks. Large files are compared by samples
// (engine/io/file_digest.h).
void check_inputs_agree(const Config& config, Communicator& world);

}  // namespace recollect
