// Saves the model of the best evaluation so far to output_dir/best_model, in the same form as
// checkpoint.save_model. A better one replaces it completely or not at all; evaluation.json beside it has the
// evaluation. If a save fails, the run warns, keeps the previous model and continues. If no later model is
// better, the run saves everything else and ends with that error.
#pragma once

#include <optional>
#include <string>

#include "launch/config/config.h"
#include "launch/train/companions.h"
#include "launch/train/session.h"

namespace recollect {

class BestModel {
 public:
  // Does nothing if checkpoint.save_best_model is off. Config and session must outlive it. Rank 0 makes the
  // folder and may throw kStorage. A resumed run warns if the best model so far is missing.
  BestModel(const Config& config, const Session& session);

  // Collective, after each evaluation. Saves the model if it is the best.
  void after_evaluation(const EvaluationResult& result);
  // On rank 0 the folder of the best model; "" if there is none.
  std::string place() const;
  // Call it after the last step. Throws kStorage if the best model could not be saved.
  void check_saved() const;

 private:
  bool is_there() const;

  const Config& config_;
  const Session& session_;
  const bool saves_;
  const std::string folder_;
  std::optional<Companions> companions_;  // on rank 0
  bool has_companions_ = false;           // they and config.json are written
  std::optional<Error> failed_;           // the save of the best one
};

}  // namespace recollect
