// A corpus as chunks of about a megabyte: parts of a text file, or some lines of a JSONL file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/files.h"

namespace recollect {

struct Chunk {
  std::shared_ptr<const MappedFile> file;
  std::size_t begin = 0, end = 0;  // in the file
  bool is_jsonl = false;

  std::string_view text() const { return file->text().substr(begin, end - begin); }
  bool ends_file() const { return end == file->size(); }
};

class Corpus {
 public:
  // Error kInput for paths that lead nowhere.
  Corpus(const std::vector<std::string>& inputs, const Tokenizer& tokenizer);

  uint64_t bytes() const { return bytes_; }  // of all files, as they were at the start
  // False at the end. Error kInput for a file that cannot be read any more.
  bool next(Chunk& chunk);

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> files_;
  uint64_t bytes_ = 0;
  std::size_t next_file_ = 0;
  Chunk last_;
};

// The string under `key` of the JSON object in `line`, which begins at `offset` of the file `path`. Nothing
// else in the object is kept. Error kInput naming both.
std::string text_of_json(std::string_view line, const std::string& key, const std::string& path,
                         std::size_t offset);

}  // namespace recollect
