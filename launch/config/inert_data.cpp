#include "launch/config/data_source.h"
#include "launch/config/inert_rules.h"
#include "launch/config/masking.h"

namespace recollect {

namespace {

bool has_records(const Config& config, DataFormat format) {
  return format == DataFormat::kJsonl || (format != DataFormat::kText && holds_texts(config, format));
}

bool reads_records(const Config& config) {
  return (config.training.max_steps > 0 && has_records(config, config.data.format)) ||
         (config.evaluation.runs() && has_records(config, config.evaluation.format));
}

}  // namespace

std::vector<InertRule> inert_data_rules() {
  return {
      {{"data.padding", "data.group_by_length"},
       {"data.format"},
       [](const Config& c) { return !lengths_change(c); },
       "all its samples are of data.sequence_length"},
      {{"data.pad_to_multiple_of", "data.group_by_length", "training.compile"},
       {"data.padding"},
       [](const Config& c) { return c.data.padding == Padding::kMax; },
       "there is one length, data.sequence_length"},
      {{"data.padding", "data.pad_to_multiple_of", "data.group_by_length", "training.compile"},
       {"data.pad_to_multiple_of", "data.sequence_length"},
       [](const Config& c) {
         return c.data.padding != Padding::kMax && c.data.pad_to_multiple_of >= c.data.sequence_length;
       },
       "every sequence is padded to data.sequence_length"},
      {{"data.samples", "data.lengths", "data.constant_label"},
       {"data.format"},
       [](const Config& c) { return !reads(c, DataFormat::kRandom); },
       "only random data is made by them"},
      {{"data.constant_label"},
       {"task"},
       [](const Config& c) { return c.task == Task::kCausalLm; },
       "the ids are the labels"},
      {{"data.on_bad_record"},
       {"data.format"},
       [](const Config& c) { return !reads_records(c); },
       "it has no records"},
      {{"data.weights"},
       {"data.path"},
       [](const Config& c) { return c.data.weights.size() == 1 && c.data.path.size() == 1; },
       "there is one set"},
      {{"data.labels", "data.columns.text", "data.columns.pair", "data.columns.label", "data.truncation",
        "data.stride"},
       {"data.format"},
       [](const Config& c) { return !reads_texts(c); },
       "it holds no texts"},
      {{"data.tokenizer"},
       {"data.format"},
       [](const Config& c) { return !reads_texts(c) && !keeps_tokenizer(c) && masking_tokenizer(c).empty(); },
       "it holds no texts, and no tokens of which a model is saved"},
      {{"data.columns.text", "data.columns.pair", "data.columns.label"},
       {"data.format", "task"},
       [](const Config& c) { return reads_texts(c) && !has_named_columns(c) && !is_language_model(c.task); },
       "it has columns of its own"},
      {{"data.columns.pair"},
       {"task"},
       [](const Config& c) { return reads_texts(c) && c.task == Task::kTokenClassification; },
       "a sample is one list of words"},
      {{"data.columns.pair", "data.columns.label"},
       {"task"},
       [](const Config& c) { return reads_texts(c) && is_language_model(c.task); },
       "a sample is one text without a label"},
      {{"data.columns.text", "data.truncation"},
       {"data.format"},
       [](const Config& c) {
         return reads_texts(c) && is_language_model(c.task) && !has_named_columns(c) &&
                !reads(c, DataFormat::kSquad);
       },
       "its files are one stream of text"},
      {{"data.columns.text"},
       {"data.format"},
       [](const Config& c) {
         return is_language_model(c.task) && !has_named_columns(c) && reads(c, DataFormat::kSquad);
       },
       "its contexts are the texts"},
      {{"data.truncation"},
       {"data.packing"},
       [](const Config& c) {
         return reads_texts(c) && is_language_model(c.task) && c.data.packing == Packing::kAcross;
       },
       "lines are one stream, which is cut into samples"},
      {{"data.chat_template", "data.learn", "data.columns.messages", "data.columns.prompt",
        "data.columns.completion", "data.columns.tools"},
       {"data.format", "task"},
       [](const Config& c) { return !may_hold_chats(c); },
       "conversations are lines of jsonl that data.tokenizer reads, for causal_lm"},
      {{"data.header"},
       {"data.format"},
       [](const Config& c) { return !reads(c, DataFormat::kCsv) && !reads(c, DataFormat::kTsv); },
       "only csv and tsv may be without a header"},
      {{"data.labels"},
       {"task"},
       [](const Config& c) {
         return reads_texts(c) && c.task != Task::kSequenceClassification &&
                c.task != Task::kTokenClassification;
       },
       "its labels have no names"},
      {{"data.truncation"},
       {"task"},
       [](const Config& c) { return reads_texts(c) && c.task == Task::kQuestionAnswering; },
       "what has no room comes in further windows"},
      {{"data.stride"},
       {"task"},
       [](const Config& c) { return reads_texts(c) && c.task != Task::kQuestionAnswering; },
       "a text is cut, not read in windows"},
      {{"data.choices"},
       {"task"},
       [](const Config& c) { return c.task != Task::kMultipleChoice; },
       "a sample is one sequence"},
      {{"data.mask_token", "data.mask_probability", "data.special_tokens"},
       {"task"},
       [](const Config& c) { return c.task != Task::kMaskedLm; },
       "no token is masked"},
      {{"data.mask_probability", "data.special_tokens"},
       {"data.mask_token"},
       [](const Config& c) {
         return c.task == Task::kMaskedLm && c.data.mask_token < 0 && masking_tokenizer(c).empty();
       },
       "labels come with the data"}};
}

}  // namespace recollect
