// What lies beside a saved model, so that Transformers takes the folder as it is: what save_pretrained of a model and of its
// tokenizer would leave. Files of the tokenizer are copied as they are; what it lacks is written.
#pragma once

#include <string>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "launch/config/config.h"

namespace recollect {

struct Companion {
  std::string name;  // in the model's folder
  std::string from;  // the file that is copied; "": `text` is written
  std::string text;
};

class Companions {
 public:
  explicit Companions(const Config& config);

  uint64_t bytes() const;  // at most
  // What cannot be copied is complained of.
  void write(const std::string& folder) const;
  // A config.json with the ids of special tokens that the tokenizer has and the model's own file does not say.
  std::string with_token_ids(const std::string& description) const;
  // What a user of the folder should know.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  void add_tokenizer(const Config& config, const std::string& path);
  void add_chat_template(const std::string& chosen, const std::string& tokenizer);
  void add_generation(const Config& config);

  std::vector<Companion> files_;
  std::vector<std::string> remarks_;
  std::string vocabulary_;  // not empty: files of which a tokenizer.json is made
  SpecialIds special_;
  bool causal_ = false, tokens_win_ = false;  // the tokenizer is another than that of the model's own folder
  bool learns_pad_ = false;                   // pad_token_id is no key of the model
};

// Names of all files that it may write.
const std::vector<std::string>& companion_names();

}  // namespace recollect
