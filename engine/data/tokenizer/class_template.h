// What a class of Transformers puts around a text, as the post_processor of the tokenizer.json that is made of a folder.
#pragma once

#include <map>
#include <string>

#include "engine/data/tokenizer/added_list.h"
#include "engine/data/tokenizer/as_tokenizer_json.h"
#include "engine/data/tokenizer/tokenizer_class.h"

namespace recollect {

struct TemplateSource {
  TokenizerClass made;  // the class that makes the tokenizer anew; kUnsaid: none
  bool unsaid;          // no file says a class
  bool from_json;       // there is a tokenizer.json
  const std::string& file;
  const std::map<std::string, TokenBeside>& named;
  const FilesBeside& beside;
  const AddedList& added;
};

// Errors: kInput.
void make_template(const TemplateSource& source, TokenizerAsRead& result);

}  // namespace recollect
