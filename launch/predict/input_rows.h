// The rows of the files that samples were made of, as they stand there: what predictions are written beside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/text_table.h"
#include "engine/io/json.h"
#include "launch/config/config.h"
#include "launch/train/open_data.h"

namespace recollect {

class InputRows {
 public:
  // Of texts in csv, tsv and jsonl; others have no rows. Errors: kInput, where a file has changed meanwhile.
  InputRows(const Config& config, const OpenedData& data);

  // Names and values of the sample's row, in the file's order, but for lists; empty where there is none.
  nlohmann::ordered_json of(std::size_t sample) const;

 private:
  struct File {
    std::optional<TextTable> table;   // csv, tsv
    std::string text;                 // jsonl
    std::vector<std::size_t> begins;  // of its lines
  };

  nlohmann::ordered_json row_of_table(const TextTable& table, int64_t line) const;
  nlohmann::ordered_json row_of_text(const File& file, int64_t line) const;

  std::vector<File> files_;
  std::vector<RowPlace> places_;  // by sample
};

}  // namespace recollect
