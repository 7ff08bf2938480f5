// The tokens that a Transformers class puts around a text, as the post_processor of the folder's tokenizer.json.
#pragma once

#include <map>
#include <string>

#include "engine/data/tokenizer/added_list.h"
#include "engine/data/tokenizer/as_tokenizer_json.h"
#include "engine/data/tokenizer/tokenizer_class.h"

namespace recollect {

struct TemplateSource {
  TokenizerClass made;  // the class that rebuilds the tokenizer; kUnsaid: none
  bool unsaid;          // no file names a class
  bool from_json;       // there is a tokenizer.json
  const std::string& file;
  const std::map<std::string, TokenBeside>& named;
  const FilesBeside& beside;
  const AddedList& added;
};

// Errors: kInput.
void make_template(const TemplateSource& source, TokenizerAsRead& result);

}  // namespace recollect
