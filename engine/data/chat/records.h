// Records of conversations, in the shapes that people have them in: of each the same thing is made, turns or texts.
//
// shape          keys                                      becomes
// conversation   messages                                  its turns
// ShareGPT       conversations of from and value           its turns
// prompt         prompt, completion: texts or turns        a given part, and one that follows
// Alpaca         instruction, input?, output, system?      two turns; without a chat template Stanford's text
// segments       segments of label and text (input_output) texts, each learned or not
// text           text                                      nothing of this file's: texts are documents (prepare_texts.h)
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/jinja/value.h"

namespace recollect {

enum class RecordShape { kConversation, kShareGpt, kPrompt, kAlpaca, kSegments, kText };
// As a run calls them.
template <>
inline constexpr std::array<std::string_view, 6> kSpellings<RecordShape> = {
    "conversations (messages)", "conversations (ShareGPT)", "prompts with completions",
    "instructions (Alpaca)",    "segments (input_output)",  "texts"};

// Names of keys; "": the usual one.
struct RecordColumns {
  std::string text = {}, messages = {}, prompt = {}, completion = {}, tools = {};
};

struct ChatRecord {
  bool has_turns = false;
  // With turns: all of them, how many of the first ones are the prompt (of kPrompt), and tools or none.
  jinja::Value messages = {}, tools = {};
  std::size_t given = 0;
  std::string prompt = {}, completion = {};                 // without turns
  std::vector<std::pair<bool, std::string>> segments = {};  // whether it is learned, and its text
};

// Of a file's first record. Error kInput, without a place, for shapes that are not trained on, such as preference pairs.
RecordShape shape_of(const jinja::Value& record, const RecordColumns& columns);

// Errors, without a place: kInput that names the turn, from 1 on; a BlankRecord for a record that holds nothing.
// `with_template`: Alpaca's records become turns.
ChatRecord read_record(const jinja::Value& record, RecordShape shape, const RecordColumns& columns,
                       bool with_template);
// A list of turns, checked; `what` begins errors.
jinja::Value checked_turns(const jinja::Value& turns, const std::string& what);

}  // namespace recollect
