// Finds and loads the snapshot (training checkpoint) that a run resumes from. A run owns the snapshots that
// it has saved, including earlier attempts of its launch, and the one that it resumed from. The folder may
// hold others too.
#pragma once

#include <string>
#include <vector>

#include "launch/train/session.h"

namespace recollect {

// `folder` is empty if the run begins at its first step.
struct Resumed {
  std::string folder = {};
  TrainingProgress progress = {};
  std::vector<std::string> passed_over = {};  // newer damaged snapshots, with the damage
  std::string changed =
      {};  // changed keys that decide results, with both values; "" if none
  bool other_base =
      false;  // on rank 0: the base model of the adapters has other contents
  std::string classes =
      "[]";  // of the model, in order; [] if they have no names
  std::vector<std::string> ignored_files = {};  // in the folder but not in its manifest
  std::vector<std::string> replaced = {};  // later snapshots that the first save will remove
};

// Collective. Fills the state from the snapshot that `config` selects, the same on all ranks. With resume:
// auto this is the newest intact one, or none if there is none. It may be that of the last step, because a
// run may have died after it and before its model was saved. If the launch has restarted this run, the newest
// snapshot of the launch takes precedence over `config`. Throws kInput if the snapshot is damaged or of
// another model, if all are damaged, or if it is of a later step than the run has; kStorage if the system
// cannot read it, which is no damage.
Resumed resume_training(const Config& config, const TrainingState& state, Communicator& world);

// Collective. For a run that only evaluates, which never resumes. Throws kConfiguration if it would resume
// with steps.
void check_nothing_to_resume(const Config& config, Communicator& world);

// Collective. Fills the state from the first intact snapshot in `folders`, which only rank 0 has to know.
// Those before it are skipped. The result has no folder if none is intact.
Resumed resume_from(const std::vector<std::string>& folders, const Config& config, const TrainingState& state,
                    Communicator& world);

// Throws kInput if the data has other classes than that of the snapshot, or another order of them: the model
// would confuse the classes.
void check_classes(const Resumed& resumed, const Config& config, const Session& session);

// On rank 0. Throws kInput if adapters would continue with another base model than the one that they were
// trained on.
void check_base(const Resumed& resumed, const Config& config);

// Whether the newest snapshot in the run's folder comes from a run with the same output_dir.
bool has_own_snapshots(const Config& config);

// The configuration of the run with the classes found in its data, whose names are stored nowhere else.
std::string recorded_configuration(Config config, const Session& session);

}  // namespace recollect
