#include "engine/data/chat/encoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/data/bad_records.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect {
namespace {

using jinja::Value;

Value first_turns(const Value& messages, std::size_t count) {
  const std::vector<Value>& all = messages.sequence()->items;
  return Value::list({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)});
}

bool is_of_assistant(const Value& turn) {
  const std::string& role = turn.dict()->named("role")->text();
  return role == "assistant" || role == "model";
}

// Whether the turn may be learned: OpenAI's "weight" is not 0, axolotl's "train" not false.
bool may_be_learned(const Value& turn) {
  const Value *weight = turn.dict()->named("weight"), *train = turn.dict()->named("train");
  return !(weight && weight->is_number() && weight->real() == 0) &&
         !(train && train->is<bool>() && !jinja::truth(*train));
}

std::vector<std::size_t> turns_of_assistant(const Value& messages) {
  std::vector<std::size_t> turns;
  for (std::size_t i = 0; i < messages.sequence()->items.size(); ++i)
    if (is_of_assistant(messages.sequence()->items[i])) turns.push_back(i);
  return turns;
}

[[noreturn]] void fail_blank() { throw BlankRecord("nothing is learned of it: no turn is the assistant's"); }

std::size_t common_begin(std::string_view a, std::string_view b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  while (same > 0 && same < a.size() && continues_utf8(a[same])) --same;
  return same;
}

Value text_part(std::string text) {
  auto part = std::make_shared<jinja::Dict>();
  part->set(Value("type"), Value("text"));
  part->set(Value("text"), Value(std::move(text)));
  return Value(std::move(part));
}

// The name of the first function that the turn calls; empty if it calls none.
std::string first_call(const Value& turn) {
  const Value* calls = turn.dict()->named("tool_calls");
  if (!calls || !calls->sequence() || calls->sequence()->items.empty()) return {};
  const Value& call = calls->sequence()->items.front();
  const Value* function = call.dict()->named("function");
  return (function && function->dict() ? *function : call).dict()->named("name")->text();
}

// The text of a turn, to be looked for in what the template makes of it; empty where it has none.
std::string content_of(const Value& turn) {
  const Value* content = turn.dict()->named("content");
  if (!content || content->is_none()) return {};
  std::string text;
  if (content->is_text()) text = content->text();
  if (content->sequence())
    for (const Value& part : content->sequence()->items)
      text = part.is_text() ? part.text() : part.dict()->named("text")->text();  // of several the last
  // What comes before the end of thinking may be left out.
  if (const std::size_t thought = text.rfind("</think>"); thought != std::string::npos)
    text.erase(0, thought + 8);
  return std::string(jinja::strip_right(jinja::strip_left(text)));
}

}  // namespace

std::vector<uint32_t> ChatEncoder::ids_of(std::string_view text, EncodingMemory& memory) const {
  std::vector<uint32_t> ids;
  tokenizer_.encode(text, memory, ids);
  return ids;
}

LearnedTokens ChatEncoder::encode(const ChatRecord& record, EncodingMemory& memory) const {
  LearnedTokens tokens = record.has_turns           ? encode_turns(record, memory)
                         : !record.segments.empty() ? encode_segments(record, memory)
                                                    : encode_texts(record, memory);
  if (std::find(tokens.learned.begin(), tokens.learned.end(), true) == tokens.learned.end())
    throw BlankRecord("nothing is learned of it");
  return tokens;
}

std::vector<int32_t> ChatEncoder::prompt_ids(const Value& messages, const Value& tools,
                                             EncodingMemory& memory) const {
  const std::vector<uint32_t> ids = ids_of(templates_.render(messages, tools, true).text, memory);
  return {ids.begin(), ids.end()};
}

LearnedTokens ChatEncoder::encode_turns(const ChatRecord& record, EncodingMemory& memory) const {
  const Learn learn = learn_ != Learn::kAuto ? learn_
                      : record.given > 0     ? Learn::kCompletion
                                             : Learn::kAssistant;
  const jinja::Rendered whole = templates_.render(record.messages, record.tools, false);
  LearnedTokens tokens;
  if (learn == Learn::kAll) {
    for (const uint32_t id : ids_of(whole.text, memory)) tokens.add(id, true);
    return tokens;
  }
  const std::vector<std::size_t> turns = turns_of_assistant(record.messages);
  if (learn == Learn::kCompletion) {
    if (record.given == 0 && turns.empty()) fail_blank();
    return encode_completion(record, whole.text, record.given > 0 ? record.given : turns.back(), memory);
  }
  if (turns.empty()) fail_blank();
  std::vector<Range> ranges;
  const bool marked = templates_.of(record.tools).has_generation();
  const std::vector<Value>& all = record.messages.sequence()->items;
  const bool learns_all =
      std::all_of(turns.begin(), turns.end(), [&](std::size_t turn) { return may_be_learned(all[turn]); });
  if (marked && !learns_all && whole.generations.size() != turns.size())
    throw Error(ExitCode::kInput,
                fmt::format("the template marks {} turns, and {} are the assistant's: which of them a weight "
                            "of 0 means is not known",
                            whole.generations.size(), turns.size()),
                "leave \"weight\" and \"train\" out");
  for (std::size_t i = 0; i < (marked ? whole.generations.size() : turns.size()); ++i) {
    if (!learns_all && !may_be_learned(all[turns[i]])) continue;
    if (marked)
      ranges.push_back({whole.generations[i].begin, whole.generations[i].end});
    else
      ranges.push_back(find_turn(record, whole.text, turns[i]));
  }
  return encode_ranges(whole.text, ranges, !marked, memory);
}

// As many tokens as the prompt has alone are given, as in TRL.
LearnedTokens ChatEncoder::encode_completion(const ChatRecord& record, const std::string& text,
                                             std::size_t given, EncodingMemory& memory) const {
  const std::vector<int32_t> prompt = prompt_ids(first_turns(record.messages, given), record.tools, memory);
  LearnedTokens tokens;
  for (const uint32_t id : ids_of(text, memory)) tokens.add(id, tokens.ids.size() >= prompt.size());
  tokens.prompt_differs =
      prompt.size() > tokens.ids.size() || !std::equal(prompt.begin(), prompt.end(), tokens.ids.begin());
  return tokens;
}

// Tokens that reach into a range, as Transformers has its assistant masks.
LearnedTokens ChatEncoder::encode_ranges(const std::string& text, const std::vector<Range>& ranges,
                                         bool trims_ends, EncodingMemory& memory) const {
  std::vector<Token> found;
  tokenizer_.encode(text, memory, found);
  found = tokenizer_.assemble(found, std::nullopt, {.special_tokens = false}).front();
  std::vector<uint32_t> points;
  if (trims_ends)
    for (std::size_t at = 0; at < text.size();) points.push_back(decode_utf8(text, at));
  const auto is_blank = [&](const Token& token) {
    for (uint32_t i = token.begin; i < token.end; ++i)
      if (!jinja::is_blank_point(points[i])) return false;
    return !tokenizer_.is_special(token.id);
  };
  LearnedTokens tokens;
  std::size_t range = 0;
  std::vector<std::size_t> last(ranges.size(), SIZE_MAX);
  for (const Token& token : found) {
    while (range < ranges.size() && static_cast<int64_t>(token.begin) >= ranges[range].end) ++range;
    const bool inside = range < ranges.size() && static_cast<int64_t>(token.end) > ranges[range].begin;
    if (inside) last[range] = tokens.ids.size();
    tokens.add(token.id, inside);
  }
  if (!trims_ends) return tokens;
  // Blanks between a turn's end, which is a special token, and the next turn are nobody's.
  for (const std::size_t end : last) {
    std::size_t at = end;
    while (end != SIZE_MAX && at > 0 && tokens.learned[at] && is_blank(found[at])) --at;
    if (end == SIZE_MAX || !tokens.learned[at] || !tokenizer_.is_special(found[at].id)) continue;
    std::fill(tokens.learned.begin() + static_cast<std::ptrdiff_t>(at) + 1,
              tokens.learned.begin() + static_cast<std::ptrdiff_t>(end) + 1, false);
  }
  return tokens;
}

// Where in the text the turn's content ends: the text is compared with that of the same conversation in which a marker
// stands for the content. npos if the template writes no content there.
std::size_t ChatEncoder::end_of_content(const ChatRecord& record, const std::string& text, std::size_t turn,
                                        std::size_t begin) const {
  static constexpr std::string_view kMarker = "0marker5of1content7";
  std::vector<Value> turns = record.messages.sequence()->items;
  const Value* content = turns[turn].dict()->named("content");
  if (!content || content->is_none()) return begin;
  auto changed = std::make_shared<jinja::Dict>(*turns[turn].dict());
  changed->set(Value("content"), content->sequence() ? Value::list({text_part(std::string(kMarker))})
                                                     : Value(std::string(kMarker)));
  turns[turn] = Value(std::move(changed));
  const std::string marked = templates_.render(Value::list(std::move(turns)), record.tools, false).text;
  const std::size_t at = marked.rfind(kMarker);
  if (at == std::string::npos) return at;
  const std::string_view rest = std::string_view(marked).substr(at + kMarker.size());
  const bool alike = text.size() >= begin + rest.size() && text.ends_with(rest);
  return alike ? text.size() - rest.size() : std::string::npos;
}

// Where the template has no {% generation %}: a turn begins where the text with it first differs from what the model would be
// asked with, and ends where the conversation up to it does. Templates that write earlier turns in another way than the last
// one have the turn's end, a special token, looked for after what the turn says.
ChatEncoder::Range ChatEncoder::find_turn(const ChatRecord& record, const std::string& text,
                                          std::size_t turn) const {
  const auto fail = [&](const std::string& why) {
    throw Error(
        ExitCode::kInput, fmt::format("turn {}: {}", turn + 1, why),
        "data.learn: all learns every token; a template with {% generation %} around what the assistant says "
        "marks its turns");
  };
  if (turn == 0)
    fail("the conversation begins with the assistant, so that the template shows no turn before it");
  const Value before = first_turns(record.messages, turn);
  const std::string asked = templates_.render(before, record.tools, true).text;
  const std::string told = templates_.render(before, record.tools, false).text;
  const std::size_t begin = common_begin(text, asked);
  if (begin < common_begin(told, asked))
    fail("the template writes the turns before it in another way once it is there");
  const std::string upto =
      turn + 1 == record.messages.sequence()->items.size()
          ? text
          : templates_.render(first_turns(record.messages, turn + 1), record.tools, false).text;
  const Value& said = record.messages.sequence()->items[turn];
  std::size_t end = std::string::npos;
  if (text.starts_with(upto)) {
    end = upto.size();
  } else {
    const std::size_t at = end_of_content(record, text, turn, begin);
    if (at == std::string::npos) fail("the template does not write what it says");
    for (const std::string& special : special_tokens_)
      if (const std::size_t found = text.find(special, at); found != std::string::npos)
        end = std::min(end, found + special.size());
    const bool is_last = turn + 1 == record.messages.sequence()->items.size();
    const std::size_t next = is_last ? end : end_of_content(record, text, turn + 1, begin);
    const bool beyond_next = next != std::string::npos && next > begin && end > next;
    if (end == std::string::npos || beyond_next) fail("no special token ends it");
  }
  const std::string_view written = std::string_view(text).substr(begin, end - begin);
  const std::string call = first_call(said);  // some templates write no content beside it
  if (call.empty() && written.find(content_of(said)) == std::string_view::npos)
    fail("the template does not write what it says");
  if (written.find(call) == std::string_view::npos) fail("the template does not write its tool calls");
  const auto points = [&](std::size_t byte) {
    return jinja::points_of(std::string_view(text).substr(0, byte));
  };
  return {points(begin), points(end)};
}

LearnedTokens ChatEncoder::encode_texts(const ChatRecord& record, EncodingMemory& memory) const {
  std::string text = record.prompt + record.completion;
  if (const auto end = tokenizer_.special().eos; end && !text.ends_with(tokenizer_.token(*end)))
    text += tokenizer_.token(*end);
  const auto whole = [&](const std::string& of) {
    std::vector<Token> tokens;
    tokenizer_.encode(of, memory, tokens);
    return tokenizer_.assemble(tokens, std::nullopt, {}).front();
  };
  const std::vector<Token> prompt = record.prompt.empty() ? std::vector<Token>() : whole(record.prompt);
  LearnedTokens tokens;
  const auto same_id = [](const Token& token, int32_t id) { return static_cast<int32_t>(token.id) == id; };
  for (const Token& token : whole(text))
    tokens.add(token.id, learn_ == Learn::kAll || tokens.ids.size() >= prompt.size());
  tokens.prompt_differs = prompt.size() > tokens.ids.size() ||
                          !std::equal(prompt.begin(), prompt.end(), tokens.ids.begin(), same_id);
  return tokens;
}

LearnedTokens ChatEncoder::encode_segments(const ChatRecord& record, EncodingMemory& memory) const {
  LearnedTokens tokens;
  for (const auto& [label, text] : record.segments)
    for (const uint32_t id : ids_of(text, memory)) tokens.add(id, label || learn_ == Learn::kAll);
  return tokens;
}

}  // namespace recollect
