#include "launch/cli/preview.h"

#include <unistd.h>

#include <limits>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/data/chat/prepare_chats.h"
#include "engine/data/corpus.h"
#include "engine/data/find_files.h"
#include "engine/data/text_file.h"
#include "engine/data/text_table.h"
#include "engine/data/tokenize_corpus.h"
#include "engine/io/standard_output.h"

namespace recollect {
namespace {

// How stretches of tokens are told apart.
struct Marks {
  std::string_view learned, read, padding, plain;
};
constexpr Marks kColours{"\x1b[32m", "\x1b[2m", "\x1b[34m", "\x1b[0m"};

std::string tokens_text(const Tokenizer& tokenizer, const LearnedTokens& tokens, const Marks* colours) {
  std::string text;
  for (std::size_t begin = 0; begin < tokens.ids.size();) {
    std::size_t end = begin;
    while (end < tokens.ids.size() && tokens.learned[end] == tokens.learned[begin]) ++end;
    const std::vector<uint32_t> ids(tokens.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                    tokens.ids.begin() + static_cast<std::ptrdiff_t>(end));
    const std::string words = printable_lines(tokenizer.decode(ids));
    if (colours)
      text += fmt::format("{}{}{}", tokens.learned[begin] ? colours->learned : colours->read, words,
                          colours->plain);
    else
      text += tokens.learned[begin] ? "{+" + words + "+}" : words;
    begin = end;
  }
  return text;
}

void show_sample(const Tokenizer& tokenizer, const ChatSample& sample, int64_t length, const Marks* colours) {
  const auto size = std::ssize(sample.tokens.ids);
  const int64_t padding = std::max<int64_t>(length - size, 0);
  const auto learned = std::count(sample.tokens.learned.begin(), sample.tokens.learned.end(), true);
  const auto faint = [&](const std::string& text) {
    return colours ? fmt::format("{}{}{}", colours->padding, text, colours->plain) : text;
  };
  std::string text = fmt::format("{}: {} tokens, {} learned{}\n{}", printable(sample.where), size, learned,
                                 padding > 0 ? fmt::format(", {} of padding", padding) : "",
                                 tokens_text(tokenizer, sample.tokens, colours));
  text += faint(" [end of document]");
  if (padding > 0) text += faint(fmt::format(" [{} x padding]", padding));
  put_text(stdout, text + "\n\n");
}

// A document, of which every token is learned, with its end.
ChatSample text_sample(const Tokenizer& tokenizer, const std::string& where, std::string_view text,
                       int64_t length) {
  EncodingMemory memory;
  std::vector<uint32_t> ids;
  tokenizer.encode(text, memory, ids);
  if (const auto end = usual_end_of_document(tokenizer)) ids.push_back(*end);
  if (length > 0 && std::ssize(ids) > length) ids.resize(static_cast<std::size_t>(length));
  ChatSample sample{where, {}};
  for (const uint32_t id : ids) sample.tokens.add(id, true);
  return sample;
}

std::vector<ChatSample> text_samples(const Tokenizer& tokenizer, const PreviewSpec& spec,
                                     const std::string& path, std::size_t count) {
  std::vector<ChatSample> samples;
  if (!path.ends_with(".jsonl")) return {text_sample(tokenizer, path, read_utf8(path), spec.sequence_length)};
  const TextTable table(path, {.format = TableFormat::kJsonl, .columns = {spec.key}});
  for (std::size_t row = 0; row < table.rows() && samples.size() < count; ++row)
    samples.push_back(text_sample(tokenizer, fmt::format("{}:{}", path, table.line(row)), table.at(row, 0),
                                  spec.sequence_length));
  return samples;
}

}  // namespace

void show_preview(const Tokenizer& tokenizer, const PreviewSpec& spec) {
  const Marks* colours = may_draw_on(STDOUT_FILENO) ? &kColours : nullptr;
  if (!colours) put_text(stdout, "{+...+} is learned, the rest is read\n\n");
  BadRecords bad;
  int64_t left = spec.samples;
  for (const std::string& path : find_files(spec.inputs, kCorpusExtensions)) {
    if (left <= 0) break;
    const bool jsonl = path.ends_with(".jsonl");
    const RecordShape shape = jsonl && spec.key == "text" ? shape_of_files({path}, {}) : RecordShape::kText;
    const auto count = static_cast<std::size_t>(left);
    const ChatsSpec chats{.paths = {path},
                          .tokenizer = spec.tokenizer,
                          .chat_template = spec.chat_template,
                          .learn = spec.learn,
                          .sequence_length = spec.sequence_length,
                          .vocabulary_size = std::numeric_limits<int64_t>::max(),
                          .whole = spec.sequence_length == 0};
    const std::vector<ChatSample> samples = shape == RecordShape::kText
                                                ? text_samples(tokenizer, spec, path, count)
                                                : first_chats(tokenizer, chats, shape, count, bad);
    for (const ChatSample& sample : samples) show_sample(tokenizer, sample, spec.sequence_length, colours);
    left -= std::ssize(samples);
  }
  for (const std::string& remark : bad.remarks()) warn("{}", remark);
}

}  // namespace recollect
