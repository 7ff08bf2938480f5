#include "launch/train/best_model.h"

#include <filesystem>

#include <fmt/format.h>

#include "engine/io/file_text.h"
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/json.h"
#include "engine/io/standard_output.h"
#include "launch/config/saved_model.h"
#include "launch/train/save_model.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostText = 64 << 10;

std::string evaluation_text(const EvaluationResult& result, int64_t step) {
  nlohmann::ordered_json json{{"step", step}, {"eval_loss", result.loss}};
  for (const MetricValue& metric : result.metrics) json[std::string(metric.name)] = metric.value;
  return json.dump(2) + "\n";
}

void make_best_folder(const std::string& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error))
    throw Error(ExitCode::kStorage, fmt::format("{} is a link, and no model is saved through one", folder),
                "move it away");
  make_folders(folder);
  remove_stale_temporaries(folder);
}

}  // namespace

BestModel::BestModel(const Config& config, const Session& session)
    : config_(config),
      session_(session),
      saves_(config.checkpoint.save_best_model && config.compares_evaluations()),
      folder_(config.output_dir + kBestModelFolder) {
  if (!saves_ || session.mesh().world().rank() != 0) return;
  make_best_folder(folder_);
  companions_.emplace(config);
  if (const int64_t step = session.best().step; step > 0 && !is_there())
    warn(
        "{} does not hold the model of step {}, the best before this run went on; it will hold the next "
        "better one",
        folder_, step);
}

bool BestModel::is_there() const {
  std::string text;
  if (!read_file_text(folder_ + "/evaluation.json", kMostText, text).empty()) return false;
  const auto said = nlohmann::json::parse(text, nullptr, false);
  return said.is_object() && said.contains("step") && said["step"] == session_.best().step;
}

void BestModel::after_evaluation(const EvaluationResult& result) {
  if (!saves_ || !result.is_best) return;
  const bool first = session_.mesh().world().rank() == 0;
  std::optional<Error> refused;
  std::unique_ptr<SafetensorsWriter> file;
  if (first) try {
      if (!has_companions_) write_description(config_, session_, *companions_, folder_).commit();
      file = session_.weights().begin_file(folder_ + saved_weights_file(config_), shard_bytes(config_));
    } catch (const Error& error) {
      refused = error;
    }
  failed_ = session_.weights().save(file.get());
  if (!first) return;
  if (!failed_) try {
      write_text_file(folder_ + "/evaluation.json", evaluation_text(result, session_.progress().step));
    } catch (const Error& error) {
      failed_ = error;
    }
  if (refused) failed_ = refused;
  if (failed_)
    warn("the model of step {}, the best so far, could not be saved: {}; training goes on",
         session_.progress().step, failed_->what());
  else if (!has_companions_)
    companions_->write(folder_);
  has_companions_ |= !failed_;
}

std::string BestModel::place() const {
  return saves_ && !failed_ && session_.best().step > 0 && is_there() ? folder_ : "";
}

void BestModel::check_saved() const {
  if (!failed_ || session_.mesh().world().rank() != 0) return;
  throw Error(ExitCode::kStorage,
              fmt::format("the run is done, and the best model, that of step {}, could not be saved: {}",
                          session_.best().step, failed_->what()),
              "see to the disk that output_dir is on");
}

}  // namespace recollect
