// The data that a run trains or evaluates on, opened: files that hold ids are read as training goes on, texts are
// prepared before its first step.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/data/dataset.h"
#include "engine/data/prepare.h"
#include "engine/data/tasks.h"
#include "launch/config/config.h"

namespace recollect {

// What the processes of a node have in common of it.
struct SharedIndex {
  uint64_t bytes = 0;   // 0: nothing; every process has its own
  bool counts = false;  // of the process that has made it
};

struct OpenedData {
  std::unique_ptr<Dataset> dataset;
  // Of prepared data:
  std::vector<std::string> labels = {};   // names of the classes
  std::vector<std::string> metrics = {};  // by which the format is judged
  std::vector<std::string> ids = {};      // of samples, where the file numbers them
  std::vector<RowPlace> rows = {};        // of samples that are asked about, and not trained on
  std::unique_ptr<QuestionAnsweringSet> questions = {};
  std::vector<std::string> remarks = {};  // on what was left out of files
  std::string packing = {};  // how full the samples are that documents were packed into; "" where none were
  std::string mixture = {};  // what share each set has; "" of one
  SharedIndex index = {};
};

struct OpenOptions {
  std::vector<std::string> labels = {};  // names of classes that other data of the run has found
  bool labelled = true;                  // false: nothing is asked about labels in files of texts
  IndexReader* index = nullptr;  // what another process has found out of the same files (open_together.h)
  bool shuffled = false;         // documents are packed in the order of the run's first epoch
};

// Errors: those of reading, and kInput where the classes are not as many as the model's head tells apart.
OpenedData open_data(const Config& config, const TaskData& task, DataFormat format,
                     const std::vector<std::string>& paths, const OpenOptions& options = {});

// Those that the run trains on.
OpenedData open_training_data(const Config& config, const TaskData& task, IndexReader* index = nullptr);

// All data that a run reads, opened before its memory is predicted: what lies in memory of it (where samples begin, texts that
// are prepared) is resident by then.
struct RunData {
  OpenedData training, evaluation;  // empty where the run does not train, or does not evaluate
};
// Collective. `training`: of count_epochs().
RunData open_run_data(const Config& config, Communicator& world, OpenedData training = {});

// Collective. Of a run that counts epochs: opens the data to train on, and completes training.max_steps by the number
// of its samples (launch/config/epochs.h). Of any other run: nothing is opened. Error kRanksDisagree where ranks have other
// numbers.
OpenedData count_epochs(Config& config, Communicator& world);

}  // namespace recollect
