// Saves the trained model. Its disk space is reserved before the first step. If the disk fails nevertheless,
// the model is written beside the configuration file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/config/config.h"
#include "launch/train/companions.h"
#include "launch/train/session.h"

namespace recollect {

inline constexpr const char* kModelFile = "/model.safetensors";
inline constexpr const char* kMergedFolder = "/merged";  // in output_dir

// Throws kInput if the tokenizer of token files has more tokens than the model.
void check_companions(const Config& config);
// The names of the saved files, "/model.safetensors" and "/config.json", or those of adapters.
std::string saved_weights_file(const Config& config);
// The weights file in a folder, or the index of several files.
std::string weights_in(const std::string& folder, const Config& config);
// The size above which several files are written; 0 means one file, as always for adapters.
uint64_t shard_bytes(const Config& config);
std::string saved_description_file(const Config& config);
// Writes the description file under a temporary name. Throws kStorage.
ReplacementFile write_description(const Config& config, const Session& session, const Companions& companions,
                                  const std::string& folder);

class ModelSave {
 public:
  // Rank 0 reserves the disk space. Throws kStorage. Does nothing if checkpoint.save_model is off.
  ModelSave(const Config& config, const Session& session);

  // Collective. Prints what it has saved; with lora.merge, merge() does this. Throws kStorage if nothing
  // could be saved. `not_there` is the reason, on all ranks, for not using the output folder.
  void save(const std::optional<Error>& not_there = {});
  // On rank 0, after the other ranks no longer need it: carries out lora.merge. Throws kStorage, kInput.
  void merge() const;
  // As merge(), for lora.save_base.
  void save_base() const;
  // On rank 0, throws kStorage with the place of the model if it is not in the output folder.
  void check_place() const;

 private:
  std::string saved_text() const;
  std::optional<Error> save_elsewhere(const std::string& around);

  const Config& config_;
  const Session& session_;
  std::optional<Companions> companions_;        // of rank 0
  std::unique_ptr<SafetensorsWriter> file_;     // of rank 0
  std::optional<ReplacementFile> description_;  // config.json under a temporary name
  std::string elsewhere_;                       // place of the model, if not in the output folder
  std::string why_;
};

}  // namespace recollect
