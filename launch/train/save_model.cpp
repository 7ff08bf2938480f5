#include "launch/train/save_model.h"

#include <filesystem>

#include <fmt/format.h>

#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/standard_output.h"
#include "launch/config/data_source.h"
#include "launch/config/hf_config.h"
#include "launch/config/lora_keys.h"
#include "launch/config/quantisation.h"
#include "parallel/merge_adapters.h"
#include "parallel/quantised_base.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

// The folder of the configuration file, or the working directory if there is no file.
std::string configuration_folder(const Config& config) {
  const auto file = config.origins.find("");
  if (file == config.origins.end()) return ".";
  const std::string folder = fs::path(file->second.text).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Creates a new folder in `around`. Throws kStorage.
std::string make_rescue_folder(const std::string& around, const std::string& output) {
  const fs::path name = fs::path(output).lexically_normal();
  const std::string stem = (name.has_filename() ? name.filename() : name.parent_path().filename()).string();
  std::error_code error;
  for (int number = 1; !error; ++number) {
    std::string path = fmt::format("{}/{}.rescued{}", around, stem.empty() ? "model" : stem,
                                   number == 1 ? "" : fmt::format(".{}", number));
    if (fs::create_directory(path, error)) return path;
  }
  throw Error(ExitCode::kStorage, fmt::format("cannot make a folder in {}: {}", around, error.message()));
}

std::string model_description(const Config& config, const Session& session, const Companions& companions,
                              const std::string& dtype) {
  return companions.with_token_ids(hf_config_text(config.model, config.task, dtype, session.labels()));
}
std::string model_description(const Config& config, const Session& session, const Companions& companions) {
  const bool wide = config.training.precision == Precision::kFP64;
  return model_description(config, session, companions, wide ? "float64" : "float32");
}

// As config.json calls it.
const char* name_in_torch(DType dtype) {
  if (dtype == DType::kBF16) return "bfloat16";
  if (dtype == DType::kF16) return "float16";
  return dtype == DType::kF64 ? "float64" : "float32";
}

}  // namespace

std::string saved_weights_file(const Config& config) {
  return config.lora.rank > 0 ? kAdapterFile : kModelFile;
}

std::string weights_in(const std::string& folder, const Config& config) {
  const std::string file = saved_weights_file(config), index = file + ".index.json";
  std::error_code error;
  return fs::exists(folder + index, error) && !fs::exists(folder + file, error) ? index : file;
}

uint64_t shard_bytes(const Config& config) {
  return config.lora.rank > 0 ? 0 : static_cast<uint64_t>(config.checkpoint.max_shard_size);
}

std::string saved_description_file(const Config& config) {
  return config.lora.rank > 0 ? kAdapterConfig : "/config.json";
}

ReplacementFile write_description(const Config& config, const Session& session, const Companions& companions,
                                  const std::string& folder) {
  const std::string text = config.lora.rank > 0
                               ? adapter_description(config, session.training_program().model)
                               : model_description(config, session, companions);
  ReplacementFile file(folder + saved_description_file(config));
  file.reserve(text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  return file;
}

void check_companions(const Config& config) {
  if (config.data.tokenizer.empty() || !keeps_tokenizer(config)) return;
  const std::size_t tokens = load_tokenizer(config.data.tokenizer)->vocabulary_size();
  const ModelFact vocabulary = config.model.facts().vocabulary;
  if (static_cast<int64_t>(tokens) > vocabulary.value)
    throw Error(ExitCode::kInput,
                fmt::format("data.tokenizer {} has {} tokens, and model.{} is {}", config.data.tokenizer,
                            tokens, vocabulary.key, vocabulary.value),
                "name the tokenizer that made data.path");
}

ModelSave::ModelSave(const Config& config, const Session& session) : config_(config), session_(session) {
  if (!config.checkpoint.save_model || session.mesh().world().rank() != 0) return;
  companions_.emplace(config);
  file_ = session.weights().begin_file(config.output_dir + saved_weights_file(config), shard_bytes(config));
  description_.emplace(write_description(config, session, *companions_, config.output_dir));
  if (config.overwrite) return;
  file_->spare_newcomers();
  description_->spare_newcomers();
}

void ModelSave::save(const std::optional<Error>& not_there) {
  if (!config_.checkpoint.save_model) return;
  const bool first = session_.mesh().world().rank() == 0;
  std::optional<Error> refused = not_there;
  if (first && !refused) try {
      description_->commit();
    } catch (const Error& error) {
      refused = error;  // then the weights are written elsewhere too
    }
  if (refused) file_.reset();
  std::optional<Error> failed = session_.weights().save(file_.get());
  file_.reset();
  if (!failed) {
    if (!first) return;
    companions_->write(config_.output_dir);
    if (!config_.lora.merge) say("{}\n", saved_text());
    return;
  }
  if (refused) failed = refused;
  why_ = failed->what();
  if (first) warn("{}; trying beside the configuration file", why_);
  for (const std::string& around : {configuration_folder(config_), std::string(".")}) {
    failed = save_elsewhere(around);
    if (!failed) return;
    if (first) why_ += fmt::format("; {}", failed->what());
  }
  throw Error(ExitCode::kStorage, "the model is lost: " + why_, failed->hint());
}

std::optional<Error> ModelSave::save_elsewhere(const std::string& around) {
  std::optional<Error> failed;
  std::unique_ptr<SafetensorsWriter> file;
  std::string folder;
  if (session_.mesh().world().rank() == 0) try {
      folder = make_rescue_folder(around, config_.output_dir);
      file = session_.weights().begin_file(folder + saved_weights_file(config_), shard_bytes(config_));
      write_description(config_, session_, *companions_, folder).commit();
    } catch (const Error& error) {
      failed = error;
      file.reset();
    }
  const std::optional<Error> stopped = session_.weights().save(file.get());
  if (!stopped) {
    elsewhere_ = folder;
    if (!folder.empty()) companions_->write(folder);
    return {};
  }
  std::error_code ignored;
  if (!folder.empty()) fs::remove_all(folder, ignored);
  return failed ? failed : stopped;
}

void ModelSave::merge() const {
  if (!config_.lora.merge || !config_.checkpoint.save_model || !elsewhere_.empty()) return;
  const std::string folder = config_.output_dir + kMergedFolder;
  make_folders(folder);
  remove_stale_temporaries(folder);
  write_text_file(folder + "/config.json", model_description(config_, session_, *companions_));
  merge_adapters(session_.training_program().model, lora_settings(config_),
                 SafetensorsSet(config_.model.pretrained), SafetensorsSet(config_.output_dir + kAdapterFile),
                 folder + kModelFile, static_cast<uint64_t>(config_.checkpoint.max_shard_size));
  companions_->write(folder);
  say("{}, and merged them into {}\n", saved_text(), folder);
}

void ModelSave::save_base() const {
  if (!config_.lora.save_base || !config_.checkpoint.save_model || !elsewhere_.empty()) return;
  const std::string folder = config_.output_dir + kBaseFolder;
  make_folders(folder);
  remove_stale_temporaries(folder);
  const Model& model = session_.training_program().model;
  const SafetensorsSet base(config_.model.pretrained);
  // Transformers gives the other modules that dtype, and some of them take no other input.
  auto description = nlohmann::ordered_json::parse(
      model_description(config_, session_, *companions_, name_in_torch(dtype_of_whole(model, base))));
  description["quantization_config"] = quantisation_json(config_.lora);
  write_text_file(folder + "/config.json", description.dump(2) + '\n');
  save_quantised_base(model, base, folder + kModelFile,
                      static_cast<uint64_t>(config_.checkpoint.max_shard_size));
  companions_->write(folder);
  say("saved the base, in {}, in {}\n", name_of(config_.lora.base), folder);
}

std::string ModelSave::saved_text() const {
  return fmt::format("saved {0}{1} and {0}{2}", config_.output_dir, weights_in(config_.output_dir, config_),
                     saved_description_file(config_));
}

void ModelSave::check_place() const {
  if (elsewhere_.empty()) return;
  throw Error(ExitCode::kStorage,
              fmt::format("the model is not in {}: {}. It is in {}", config_.output_dir, why_,
                          fs::absolute(elsewhere_).lexically_normal().string()),
              fmt::format("it is complete; move {} and {} to where they belong",
                          saved_weights_file(config_).substr(1), saved_description_file(config_).substr(1)));
}

}  // namespace recollect
