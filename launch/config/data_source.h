// What the formats of data mean to the rest of a configuration: which hold texts that a tokenizer reads, for which
// tasks, and how many classes their labels have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/prepare.h"
#include "engine/io/problems.h"
#include "launch/config/config.h"

namespace recollect {

// What texts with labels are prepared for; nothing where the task's have none.
std::optional<DataTask> data_task(Task task);
// Whether its samples are texts and nothing else.
bool is_language_model(Task task);

// Whether the file holds texts that data.tokenizer makes samples of: jsonl does where it is given, and text where a
// language model has one, given or beside model.pretrained; its ids are bytes otherwise.
bool holds_texts(const Config& config, DataFormat format);
// Whether a language model reads texts as one stream, of tokens or of bytes.
bool reads_streams(const Config& config);
// Where nobody has said that such a text is read as bytes, and the model has more ids than those; else "".
std::string remark_on_bytes(const Config& config);
// Whether one of the files that the run reads is of these; of those that it does not read nobody asks.
bool reads(const Config& config, DataFormat format);
bool reads_texts(const Config& config);
// Whether the run trains a model of token files and saves it: data.tokenizer, by which they were made, goes beside it.
bool keeps_tokenizer(const Config& config);
// Whether one of them has columns that data.columns names.
bool has_named_columns(const Config& config);
// Whether its records may be conversations: only the files can tell.
bool may_hold_chats(const Config& config);
// Whether samples have as many tokens as there are: those of the others are all of data.sequence_length.
bool lengths_change(const Config& config);

// Of data.labels, or of the format that is trained on, or evaluated on where nothing is trained; 1 for a number.
// Nothing where only the file can tell, or where it holds no texts.
std::optional<int64_t> known_labels(const Config& config);

// data.lengths as numbers; nothing where they are none, or not from 1 to data.sequence_length. None of other formats.
std::optional<std::vector<DatasetSpec::Lengths>> random_lengths(const Config& config);
// What of random data cannot be.
void check_random(const Config& config, std::vector<Finding>& found);

// data.weights as numbers; nothing where they are none, or not above 0.
std::optional<std::vector<double>> weights_of(const Config& config);
// Weights that do not fit the paths, or data that cannot be mixed.
void check_weights(const Config& config, std::vector<Finding>& found);

// A text format that its task cannot read, columns that are missing, no tokenizer, classes that the head has not.
void check_texts(const Config& config, std::vector<Finding>& found);

}  // namespace recollect
