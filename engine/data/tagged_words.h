// Sentences of words, each with a tag, as named entities are annotated: CoNLL's columns, or JSONL. Every word knows the
// line that it stands in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/data/bad_records.h"
#include "engine/data/text_file.h"

namespace recollect {

class TaggedWords {
 public:
  // CoNLL: a word a line, the first of its columns, with the tag for the last; blanks or tabs between them. Sentences
  // end at empty lines, and at those that begin with -DOCSTART-; comments as CoNLL-U has them, "# text = ...", are passed
  // over. What `bad` passes over is a sentence, or a line. Without `tagged`, nothing is asked of tags. Errors:
  // kInput with path:line for a word without a tag, a line of other columns than the first, what is no UTF-8; and for a
  // file without words.
  static TaggedWords read_conll(const std::string& path, bool tagged, BadRecords& bad);
  // JSONL: lists, as long as each other, of texts under `words` and of names or numbers under `tags`; "": no tags.
  static TaggedWords read_jsonl(const std::string& path, const std::string& words, const std::string& tags,
                                BadRecords& bad);

  const std::string& path() const { return path_; }
  std::size_t sentences() const { return ends_.size(); }
  // Words of sentence i are those from begin(i) to begin(i + 1).
  std::size_t begin(std::size_t sentence) const { return sentence == 0 ? 0 : ends_[sentence - 1]; }
  std::string_view word(std::size_t i) const {
    const std::size_t from = i == 0 ? 0 : word_ends_[i - 1];
    return std::string_view(text_).substr(from, word_ends_[i] - from);
  }
  int64_t line(std::size_t word) const { return lines_[word]; }
  int64_t line_of_sentence(std::size_t sentence) const { return sentence_lines_[sentence]; }

  // Tags that there are, in the order in which they were met, and the one of a word among them.
  const std::vector<std::string>& tags() const { return tags_; }
  std::size_t tag(std::size_t word) const { return tag_of_[word]; }

 private:
  explicit TaggedWords(const std::string& path) : path_(path) {}
  void add_word(std::string_view word, int64_t line);
  void add_tag(std::string_view tag);
  void end_sentence();  // where it has words
  void drop_sentence();
  void read_json_line(const nlohmann::json& row, int64_t line, const std::string& words,
                      const std::string& tags);

  std::string path_;
  std::string text_;                    // words, one behind the other
  std::vector<std::size_t> word_ends_;  // of each in text_
  std::vector<int64_t> lines_;          // of each
  std::vector<std::size_t> ends_;       // of sentences, in words
  std::vector<int64_t> sentence_lines_;
  std::vector<std::string> tags_;
  std::unordered_map<std::string, uint32_t> numbers_of_tags_;
  std::vector<uint32_t> tag_of_;
};

}  // namespace recollect
