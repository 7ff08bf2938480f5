#include "engine/data/prepare_tags.h"

#include <algorithm>
#include <optional>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/data/labels.h"

namespace recollect {
namespace {

// Of each tag of the file; -1 where it names none.
std::vector<int32_t> classes_of(const TaggedWords& words, std::span<const std::string> labels) {
  std::vector<int32_t> classes;
  for (const std::string& tag : words.tags()) classes.push_back(find_class(tag, labels).value_or(-1));
  return classes;
}

}  // namespace

std::vector<std::string> find_tags(std::span<const TaggedWords> files) {
  std::vector<std::string> tags;
  for (const TaggedWords& file : files) tags.insert(tags.end(), file.tags().begin(), file.tags().end());
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  sort_labels(tags);
  return tags;
}

PackedSamples prepare_tags(const TaggedWords& words, const Tokenizer& tokenizer, const TagsSpec& spec,
                           BadRecords& bad, std::vector<std::size_t>* left_out) {
  const SequenceMaker maker(tokenizer, spec.sequence);
  const bool labelled = !spec.labels.empty();
  const std::vector<int32_t> classes = classes_of(words, spec.labels);
  const auto make = [&](std::size_t sentence, EncodingMemory& memory, Fields& sample) {
    const std::size_t first = words.begin(sentence);
    std::vector<std::string_view> texts;
    for (std::size_t i = first; i < words.begin(sentence + 1); ++i) {
      texts.push_back(words.word(i));
      if (labelled && classes[words.tag(i)] < 0)
        fail_at_label(words.path(), words.line(i), words.tags()[words.tag(i)], spec.labels);
    }
    std::vector<Token> tokens;
    try {
      if (texts.empty()) throw BlankRecord("the sentence has no words");
      tokens = maker.encode(texts, memory);
    } catch (const Error& error) {
      fail_at_line(words.path(), words.line_of_sentence(sentence), error);
    }
    maker.append(tokens, sample);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool begins = tokens[i].word >= 0 && (i == 0 || tokens[i].word != tokens[i - 1].word);
      if (labelled)
        sample["labels"].push_back(
            begins ? classes[words.tag(first + static_cast<std::size_t>(tokens[i].word))] : kIgnoredLabel);
      else
        sample["word_begins"].push_back(begins ? tokens[i].word + 1 : 0);
    }
    if (!labelled) sample["words"].push_back(static_cast<int32_t>(texts.size()));
  };
  std::vector<PackedSamples::Part> parts = maker.parts();
  if (labelled)
    parts.push_back({.name = "labels"});
  else  // of a word's first token its number, from 1 on; and how many words there are
    parts.insert(parts.end(), {{.name = "word_begins"}, {.name = "words"}});
  return prepare_samples(words.sentences(), spec.threads, {parts, maker.sequence_length()}, make, bad,
                         left_out);
}

}  // namespace recollect
