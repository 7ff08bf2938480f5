// The trained model on its way to the disk. Its space is claimed before the first step; where the disk fails
// all the same, the model goes beside the configuration file.
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

// Error kInput where the tokenizer of token files has more tokens than the model.
void check_companions(const Config& config);
// The files of what is saved, "/model.safetensors" and "/config.json": those of the model that is trained, or of its
// adapters.
std::string saved_weights_file(const Config& config);
// In a folder with saved weights: that file, or the index of several files.
std::string weights_in(const std::string& folder, const Config& config);
// The size above which several files are written; 0: one file, always so for adapters.
uint64_t shard_bytes(const Config& config);
std::string saved_description_file(const Config& config);
// The second, without its name yet. Error kStorage.
ReplacementFile write_description(const Config& config, const Session& session, const Companions& companions,
                                  const std::string& folder);

class ModelSave {
 public:
  // Rank 0 claims the space. Error kStorage. Nothing where checkpoint.save_model is off.
  ModelSave(const Config& config, const Session& session);

  // Collective. Says what it has saved, or with lora.merge leaves that to merge(). Where nothing could be saved: Error
  // kStorage. `not_there`: why not in the output folder, on all ranks.
  void save(const std::optional<Error>& not_there = {});
  // On rank 0, when the others need it no more: lora.merge. Errors: kStorage, kInput.
  void merge() const;
  // Likewise: lora.save_base.
  void save_base() const;
  // Error kStorage, on rank 0, with the place where the model is instead of the output folder.
  void check_place() const;

 private:
  std::string saved_text() const;
  std::optional<Error> save_elsewhere(const std::string& around);

  const Config& config_;
  const Session& session_;
  std::optional<Companions> companions_;        // of rank 0
  std::unique_ptr<SafetensorsWriter> file_;     // of rank 0
  std::optional<ReplacementFile> description_;  // config.json, written and without its name yet
  std::string elsewhere_;                       // where the model is, if not in the output folder
  std::string why_;
};

}  // namespace recollect
