#include "engine/data/chat/prepare_chats.h"

#include <atomic>
#include <numeric>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/core/printable.h"
#include "engine/data/jinja/json_text.h"
#include "engine/data/packed_samples.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/text_file.h"

namespace recollect {
namespace {

using jinja::Value;

// Labels are the ids that are learned.
class LearnedSamples final : public Dataset {
 public:
  explicit LearnedSamples(PackedSamples samples) : samples_(std::move(samples)) {}
  int64_t size() const override { return samples_.size(); }
  int64_t sequence_length() const override { return samples_.sequence_length(); }
  int64_t length(int64_t index) const override { return samples_.length(index); }
  void read(int64_t index, Fields& sample) const override {
    samples_.read(index, sample);
    std::vector<int32_t>&labels = sample["labels"], &learned = sample["learned"];
    labels.reserve(sample["ids"].capacity());
    labels = sample["ids"];
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (learned[i] == 0) labels[i] = kIgnoredLabel;
    learned.clear();
  }

 private:
  PackedSamples samples_;
};

std::vector<std::string_view> lines_of(std::string_view whole) {
  std::vector<std::string_view> lines;
  while (!whole.empty()) {
    const std::size_t end = std::min(whole.find('\n'), whole.size());
    std::string_view line = whole.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    whole.remove_prefix(std::min(end + 1, whole.size()));
  }
  return lines;
}

bool is_empty(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

Value object_of(std::string_view line) {
  if (is_empty(line)) throw BlankRecord("an empty line", "every line is a record: remove it");
  if (line.find('\0') != std::string_view::npos) throw Error(ExitCode::kInput, "a zero byte is not JSON");
  Value record;
  try {
    record = jinja::from_json(line);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), what_jsonl_is(line));
  }
  if (!record.dict())
    throw Error(ExitCode::kInput, "not an object",
                "a line is an object: {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}");
  return record;
}

// Makes tokens of lines, and cuts them.
class ChatReader {
 public:
  ChatReader(const Tokenizer& tokenizer, const ChatsSpec& spec, RecordShape shape)
      : spec_(spec),
        shape_(shape),
        templates_(tokenizer, spec.tokenizer, spec.chat_template),
        encoder_(tokenizer, templates_, spec.learn) {
    SequenceMaker(tokenizer, {.vocabulary_size = spec.vocabulary_size});
    check_choices();
  }

  LearnedTokens read(std::string_view line, EncodingMemory& memory) const {
    const ChatRecord record = read_record(object_of(line), shape_, spec_.columns, !templates_.empty());
    LearnedTokens tokens = encoder_.encode(record, memory);
    cut(tokens);
    return tokens;
  }
  const ChatTemplates& templates() const { return templates_; }

 private:
  void check_choices() const {
    const bool has_turns =
        shape_ != RecordShape::kSegments && !(shape_ == RecordShape::kAlpaca && templates_.empty());
    if (!spec_.chat_template.empty() && !has_turns)
      throw Error(ExitCode::kConfiguration,
                  fmt::format("data.chat_template has no effect: {} holds {}", list_some(spec_.paths),
                              name_of(shape_)),
                  "leave it out");
  }

  void cut(LearnedTokens& tokens) const {
    const auto most = static_cast<std::size_t>(spec_.sequence_length);
    if (spec_.whole || tokens.ids.size() <= most) return;
    if (spec_.truncation != Truncation::kLongestFirst && spec_.truncation != Truncation::kOnlyFirst)
      throw Error(ExitCode::kInput,
                  fmt::format("{} tokens, where a sequence has at most {}", tokens.ids.size(), most),
                  "choose a greater data.sequence_length, or a data.truncation");
    tokens.ids.resize(most);
    tokens.learned.resize(most);
    if (std::find(tokens.learned.begin(), tokens.learned.end(), true) == tokens.learned.end())
      throw BlankRecord(fmt::format("nothing is learned of its first {} tokens", most),
                        "choose a greater data.sequence_length");
  }

  const ChatsSpec& spec_;
  RecordShape shape_;
  ChatTemplates templates_;
  ChatEncoder encoder_;
};

struct Counts {
  std::atomic<int64_t> tokens = 0, learned = 0, differs = 0;

  void add(const LearnedTokens& read) {
    tokens += std::ssize(read.ids);
    learned += std::count(read.learned.begin(), read.learned.end(), true);
    differs += read.prompt_differs;
  }
};

std::string_view learned_part(Learn learn, RecordShape shape) {
  if (learn == Learn::kAll) return "all tokens";
  if (shape == RecordShape::kSegments) return "segments with label true";
  const bool completion = shape == RecordShape::kPrompt || shape == RecordShape::kAlpaca;
  if (learn == Learn::kAssistant || (learn == Learn::kAuto && !completion)) return "the assistant's turns";
  return completion ? "the completion" : "the last answer";
}

std::string description(const ChatReader& reader, const ChatsSpec& spec, RecordShape shape, int64_t records,
                        const Counts& counts) {
  const bool has_template = !reader.templates().empty() && shape != RecordShape::kSegments;
  const int64_t learned = counts.learned, tokens = counts.tokens;
  return fmt::format("{} {}: {} learned, {} of {} tokens ({:.1f} %){}", records, name_of(shape),
                     learned_part(spec.learn, shape), learned, tokens,
                     100.0 * static_cast<double>(learned) / static_cast<double>(std::max<int64_t>(tokens, 1)),
                     has_template ? ", template " + reader.templates().of(jinja::None{}).name() : "");
}

}  // namespace

RecordShape shape_of_files(const std::vector<std::string>& paths, const RecordColumns& columns) {
  for (const std::string& path : paths) {
    int64_t number = 0;
    const std::string whole = read_utf8(path);
    for (const std::string_view line : lines_of(whole)) {
      ++number;
      if (is_empty(line)) continue;
      Value record;
      try {
        record = object_of(line);
      } catch (const Error&) {  // those who read the file say it, or pass over it
        continue;
      }
      try {
        return shape_of(record, columns);
      } catch (const Error& error) {
        fail_at_line(path, number, error);
      }
    }
  }
  return columns.messages.empty() && columns.prompt.empty() && columns.completion.empty()
             ? RecordShape::kText
             : RecordShape::kConversation;
}

PreparedChats prepare_chats(const Tokenizer& tokenizer, const ChatsSpec& spec, RecordShape shape) {
  const ChatReader reader(tokenizer, spec, shape);
  BadRecords bad(spec.on_bad_record);
  Counts counts;
  const std::size_t width = tokenizer.vocabulary_size() <= 1 << 16 ? 2 : 4;
  PackedSamples all({{.name = "ids", .width = width}, {.name = "learned", .width = 1}}, spec.sequence_length);
  for (const std::string& path : spec.paths) {
    const std::string whole = read_utf8(path);
    const std::vector<std::string_view> lines = lines_of(whole);
    const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
      try {
        const LearnedTokens tokens = reader.read(lines[row], memory);
        counts.add(tokens);
        sample["ids"].assign(tokens.ids.begin(), tokens.ids.end());
        sample["learned"].assign(tokens.learned.begin(), tokens.learned.end());
      } catch (const Error& error) {
        if (error.code() != ExitCode::kInput) throw;
        fail_at_line(path, static_cast<int64_t>(row) + 1, error);
      }
    };
    all.append(prepare_samples(
        lines.size(), spec.threads,
        {{{.name = "ids", .width = width}, {.name = "learned", .width = 1}}, spec.sequence_length}, make,
        bad));
  }
  if (all.size() == 0 && bad.count() > 0) bad.fail_for_all(list_some(spec.paths));
  if (all.size() == 0)
    throw Error(ExitCode::kInput, list_some(spec.paths) + ": there is not a single record");
  PreparedChats prepared{.dataset = nullptr,
                         .remarks = {description(reader, spec, shape, all.size(), counts)}};
  if (counts.differs > 0)
    prepared.remarks.push_back(
        fmt::format("of {} records the prompt has other tokens alone than in the whole: as many tokens are "
                    "given as it has alone",
                    counts.differs.load()));
  if (reader.templates().wrote_date())
    prepared.remarks.push_back(
        "the template writes today's date (strftime_now): on another day the records are others");
  for (std::string& remark : bad.remarks()) prepared.remarks.push_back(std::move(remark));
  prepared.dataset = std::make_unique<LearnedSamples>(std::move(all));
  return prepared;
}

std::vector<ChatSample> first_chats(const Tokenizer& tokenizer, const ChatsSpec& spec, RecordShape shape,
                                    std::size_t count, BadRecords& bad) {
  const ChatReader reader(tokenizer, spec, shape);
  EncodingMemory memory;
  std::vector<ChatSample> samples;
  for (const std::string& path : spec.paths) {
    const std::string whole = read_utf8(path);
    int64_t number = 0;
    for (const std::string_view line : lines_of(whole)) {
      ++number;
      if (samples.size() == count) return samples;
      try {
        try {
          samples.push_back({fmt::format("{}:{}", path, number), reader.read(line, memory)});
        } catch (const Error& error) {
          if (error.code() != ExitCode::kInput) throw;
          fail_at_line(path, number, error);
        }
      } catch (const Error& error) {
        if (!bad.passes_over(error)) throw;
      }
    }
  }
  return samples;
}

}  // namespace recollect
