// What a run goes on from. A run's own snapshots are those that it has saved, attempts of its launch before this one
// included, and the one that it went on from; others may stand in the same folder.
#pragma once

#include <string>
#include <vector>

#include "launch/train/session.h"

namespace recollect {

// `folder` is empty where the run begins at its first step.
struct Resumed {
  std::string folder = {};
  TrainingProgress progress = {};
  std::vector<std::string> passed_over = {};  // newer snapshots that are damaged, and what is wrong with them
  std::string changed =
      {};  // keys that decide results and are others now, with both values; "" where there are none
  bool other_base =
      false;  // known to rank 0: the files of the model that adapters are of hold something else
  std::string classes =
      "[]";  // that the model was trained to tell apart, in order; [] where they have no names
  std::vector<std::string> ignored_files = {};  // in the folder, and not in its manifest
  std::vector<std::string> replaced = {};  // later ones in the run's folder, which its first save will remove
};

// Collective. Fills the state from the snapshot that `config` asks for; all ranks from the same one. With resume: auto the
// newest that is whole, and nothing where there is none; one of the last step too, behind which a run may have died before
// its model was saved. Where the launch has started this run again, the newest that it has saved goes before what `config`
// asks for. Error kInput where the snapshot is damaged or of another model, where all are damaged, and where it is of a
// later step than the run has; kStorage where the system refuses to read it, which is no damage.
Resumed resume_training(const Config& config, const TrainingState& state, Communicator& world);

// Collective. Of a run that only evaluates, which goes on from nothing. Error kConfiguration where it would have with steps.
void check_nothing_to_resume(const Config& config, Communicator& world);

// Collective. Fills the state from the first of these folders, which rank 0 knows, that is whole; those before it are
// passed over. No folder where none is.
Resumed resume_from(const std::vector<std::string>& folders, const Config& config, const TrainingState& state,
                    Communicator& world);

// Error kInput where the data names other classes, or in another order, than the snapshot's did: what the model has
// learned of one class would count for another.
void check_classes(const Resumed& resumed, const Config& config, const Session& session);

// On rank 0. Error kInput where adapters would go on beside another model than the one that they were trained on.
void check_base(const Resumed& resumed, const Config& config);

// Whether the newest of the snapshots in the run's folder is of a run that wrote to the same output_dir.
bool has_own_snapshots(const Config& config);

// Of the run, with the classes that it has found in its data: what they are called is nowhere else.
std::string recorded_configuration(Config config, const Session& session);

}  // namespace recollect
