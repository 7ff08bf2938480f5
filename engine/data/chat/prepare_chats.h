// Files of conversations, a record a line, as samples whose labels say what is learned; held in memory, three bytes a token,
// or five where the vocabulary has more than 65536 ids.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/bad_records.h"
#include "engine/data/chat/encoder.h"
#include "engine/data/dataset.h"

namespace recollect {

struct ChatsSpec {
  std::vector<std::string> paths = {};  // files, which follow one another
  RecordColumns columns = {};
  std::string tokenizer = {}, chat_template = {};  // as ChatTemplates has them
  Learn learn = Learn::kAuto;
  int64_t sequence_length = 0;
  int64_t vocabulary_size = 0;  // of the model
  Truncation truncation = Truncation::kLongestFirst;
  bool whole = false;  // records are left as long as they are
  int threads = 1;
  OnBadRecord on_bad_record = OnBadRecord::kSkipBlank;
};

struct PreparedChats {
  std::unique_ptr<Dataset> dataset;  // "ids" and "labels"
  std::vector<std::string> remarks = {};
};

// What the files' first record is; texts where they have none. Errors: kInput, of shapes that are not trained on.
RecordShape shape_of_files(const std::vector<std::string>& paths, const RecordColumns& columns);

// Errors: kInput with file and line; kConfiguration where a template is chosen that nothing reads.
PreparedChats prepare_chats(const Tokenizer& tokenizer, const ChatsSpec& spec, RecordShape shape);

// One record, for showing it.
struct ChatSample {
  std::string where;  // FILE:LINE
  LearnedTokens tokens;
};
// The first `count` that are read; what is passed over is counted in `bad`.
std::vector<ChatSample> first_chats(const Tokenizer& tokenizer, const ChatsSpec& spec, RecordShape shape,
                                    std::size_t count, BadRecords& bad);

}  // namespace recollect
