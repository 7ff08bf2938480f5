// Opens the data for training and evaluation. Files of ids are read during the training; texts are prepared
// before the first step.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/data/dataset.h"
#include "engine/data/prepare.h"
#include "engine/data/tasks.h"
#include "launch/config/config.h"

namespace recollect {

// The part of the data index that the processes of a node share.
struct SharedIndex {
  uint64_t bytes = 0;   // 0: not shared
  bool counts = false;  // whether this process made it and counts it
};

struct OpenedData {
  std::unique_ptr<Dataset> dataset;
  // For prepared data:
  std::vector<std::string> labels = {};   // names of the classes
  std::vector<std::string> metrics = {};  // the metrics of the format
  std::vector<std::string> ids = {};      // of samples, if the file has them
  std::vector<RowPlace> rows = {};        // of samples to predict, not to train
  std::unique_ptr<QuestionAnsweringSet> questions = {};
  std::vector<std::string> remarks = {};  // on skipped parts of files
  std::string packing = {};  // how full packed samples are; "" without packing
  std::string mixture = {};  // the share of each set; "" for one set
  SharedIndex index = {};
};

struct OpenOptions {
  std::vector<std::string> labels = {};  // class names found in other data of the run
  bool labelled = true;                  // false: labels in files of texts are ignored
  IndexReader* index = nullptr;  // index by another process (open_together.h)
  bool shuffled = false;         // pack documents in the order of the first epoch
};

// Throws the errors of reading, and kInput if the number of classes differs from that of the model's head.
OpenedData open_data(const Config& config, const TaskData& task, DataFormat format,
                     const std::vector<std::string>& paths, const OpenOptions& options = {});

// Opens the training data.
OpenedData open_training_data(const Config& config, const TaskData& task, IndexReader* index = nullptr);

// All data of a run, opened before its memory is predicted, so that its part in memory (the index of samples,
// prepared texts) is resident by then.
struct RunData {
  OpenedData training, evaluation;  // empty if the run does not train, or not evaluate
};
// Collective. `training` is the result of count_epochs().
RunData open_run_data(const Config& config, Communicator& world, OpenedData training = {});

// Collective. If the run counts epochs, opens the training data and sets training.max_steps from the number
// of samples (launch/config/epochs.h). Otherwise opens nothing. Throws kRanksDisagree if ranks have different
// numbers of samples.
OpenedData count_epochs(Config& config, Communicator& world);

}  // namespace recollect
