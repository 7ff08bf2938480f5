// SQuAD's files, 1.1 and 2.0, read as a stream: of the file itself no more than a piece is held.
#pragma once

#include <string>

#include "engine/data/bad_records.h"
#include "engine/data/questions.h"

namespace recollect {

// Appends the file's contexts, and its questions in their order. Keys that nobody asks for are passed over. With `labelled`
// every question has an answer, or is said to be impossible. Errors: kInput with path:line, and the article, paragraph and
// question, for what is missing, no such thing or there twice, for an answer that does not stand where it is said to, and
// for what is no JSON or no UTF-8; and for a file without questions.
// `bad` may pass over a question whose answer does not stand where it is said to, or that has none.
void read_squad(const std::string& path, bool labelled, QuestionAnsweringSet& set, BadRecords& bad);

// Error kInput where a question has the id of one before, by which predictions are told apart; `path` is the file that was
// appended last, and those before it have been checked.
void check_ids(const std::string& path, const QuestionAnsweringSet& set);

}  // namespace recollect
