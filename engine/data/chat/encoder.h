// A record as token ids, and which of them are learned, as TRL's SFTTrainer has it: the template writes its own special
// tokens, and none are added around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/chat/chat_templates.h"
#include "engine/data/chat/learn.h"
#include "engine/data/chat/records.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct LearnedTokens {
  std::vector<int32_t> ids = {};
  std::vector<bool> learned = {};
  bool prompt_differs = false;  // the prompt alone has other tokens than at the begin of the whole

  void add(uint32_t id, bool is_learned) {
    ids.push_back(static_cast<int32_t>(id));
    learned.push_back(is_learned);
  }
};

class ChatEncoder {
 public:
  // What is passed must outlive it.
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplates& templates, Learn learn)
      : tokenizer_(tokenizer), templates_(templates), learn_(learn) {
    for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
      if (tokenizer.is_special(id)) special_tokens_.push_back(tokenizer.token(id));
  }

  // Errors kInput without a place; a BlankRecord where nothing is learned.
  LearnedTokens encode(const ChatRecord& record, EncodingMemory& memory) const;
  // apply_chat_template with add_generation_prompt: what a model answers to.
  std::vector<int32_t> prompt_ids(const jinja::Value& messages, const jinja::Value& tools,
                                  EncodingMemory& memory) const;

 private:
  struct Range {
    int64_t begin, end;  // code points
  };
  std::vector<uint32_t> ids_of(std::string_view text, EncodingMemory& memory) const;
  LearnedTokens encode_turns(const ChatRecord& record, EncodingMemory& memory) const;
  LearnedTokens encode_texts(const ChatRecord& record, EncodingMemory& memory) const;
  LearnedTokens encode_segments(const ChatRecord& record, EncodingMemory& memory) const;
  LearnedTokens encode_completion(const ChatRecord& record, const std::string& text, std::size_t given,
                                  EncodingMemory& memory) const;
  LearnedTokens encode_ranges(const std::string& text, const std::vector<Range>& ranges, bool trims_ends,
                              EncodingMemory& memory) const;
  Range find_turn(const ChatRecord& record, const std::string& text, std::size_t turn) const;
  std::size_t end_of_content(const ChatRecord& record, const std::string& text, std::size_t turn,
                             std::size_t begin) const;

  const Tokenizer& tokenizer_;
  const ChatTemplates& templates_;
  Learn learn_;
  std::vector<std::string> special_tokens_;
};

}  // namespace recollect
