// The model of the best evaluation so far, in output_dir/best_model, as checkpoint.save_model writes that of the end: a
// better one takes its place, whole or not at all, and evaluation.json beside it says which it is. A save that fails
// costs no training: it is said, the model before it stays, and where no later one is better the run ends with that when
// everything else is saved.
#pragma once

#include <optional>
#include <string>

#include "launch/config/config.h"
#include "launch/train/companions.h"
#include "launch/train/session.h"

namespace recollect {

class BestModel {
 public:
  // Nothing where checkpoint.save_best_model is off. Config and session must outlive it. Rank 0 makes the folder: Error
  // kStorage. Where a run goes on, warns if the model that is best so far is not there.
  BestModel(const Config& config, const Session& session);

  // Collective, behind each evaluation: saves the model where it is the best.
  void after_evaluation(const EvaluationResult& result);
  // Rank 0: the folder of the best model; "" where it is not there.
  std::string place() const;
  // Behind the last step. Error kStorage where the best one could not be saved.
  void check_saved() const;

 private:
  bool is_there() const;

  const Config& config_;
  const Session& session_;
  const bool saves_;
  const std::string folder_;
  std::optional<Companions> companions_;  // of rank 0
  bool has_companions_ = false;           // they and config.json are there
  std::optional<Error> failed_;           // of the best one
};

}  // namespace recollect
