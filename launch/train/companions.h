// Writes the files beside a saved model that save_pretrained of the model and its tokenizer would write, so
// that Transformers loads the folder directly. The tokenizer's files are copied unchanged; missing ones are
// written.
#pragma once

#include <string>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "launch/config/config.h"

namespace recollect {

struct Companion {
  std::string name;  // in the model's folder
  std::string from;  // the file to copy; "": write `text`
  std::string text;
};

class Companions {
 public:
  explicit Companions(const Config& config);

  uint64_t bytes() const;  // at most
  // Warns about files that cannot be copied.
  void write(const std::string& folder) const;
  // Adds the ids of the tokenizer's special tokens to a config.json that does not have them.
  std::string with_token_ids(const std::string& description) const;
  // Remarks for users of the folder.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  void add_tokenizer(const Config& config, const std::string& path);
  void add_chat_template(const std::string& chosen, const std::string& tokenizer);
  void add_generation(const Config& config);

  std::vector<Companion> files_;
  std::vector<std::string> remarks_;
  std::string vocabulary_;  // files to make a tokenizer.json from; may be empty
  SpecialIds special_;
  bool causal_ = false, tokens_win_ = false;  // tokens_win_: not the model's own tokenizer
  bool learns_pad_ = false;                   // the embedding does not use pad_token_id
};

// The names of all files that Companions may write.
const std::vector<std::string>& companion_names();

}  // namespace recollect
