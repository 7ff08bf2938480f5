// A corpus as chunks of about a megabyte: parts of a text file, or some lines of a JSONL file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/input_file.h"

namespace recollect {

// Of the files that a folder stands for.
inline const std::vector<std::string> kCorpusExtensions = {".txt", ".jsonl"};

struct Chunk {
  std::shared_ptr<const InputFile> file;
  uint64_t begin = 0;  // in the file
  std::string text;
  bool is_jsonl = false;

  uint64_t end() const { return begin + text.size(); }
  bool ends_file() const { return end() == file->size(); }
};

class Corpus {
 public:
  // Error kInput for paths that lead nowhere.
  Corpus(const std::vector<std::string>& inputs, const Tokenizer& tokenizer);

  uint64_t bytes() const { return bytes_; }  // of all files, as they were at the start
  // False at the end. Error kInput for a file that cannot be read any more, or has lost bytes since it was
  // opened.
  bool next(Chunk& chunk);

 private:
  void read(Chunk& chunk) const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> files_;
  uint64_t bytes_ = 0;
  std::size_t next_file_ = 0;
  std::shared_ptr<const InputFile> file_;
  uint64_t at_ = 0;  // in it, of what comes next
};

// The string under `key` of the JSON object in `line`, which begins at `offset` of the file `path`. Nothing
// else in the object is kept. Error kInput naming both.
std::string text_of_json(std::string_view line, const std::string& key, const std::string& path,
                         std::size_t offset);

}  // namespace recollect
