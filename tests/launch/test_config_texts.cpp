// Files of texts in a configuration: which task each serves, what it needs, and what follows from it.
#include <gtest/gtest.h>

#include "launch/config/data_source.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_texts_test {
namespace {

std::string bert(const std::string& task, const std::string& data, const std::string& more = {}) {
  return "task: " + task + "\nmodel: {type: bert}\ndata: {path: x, tokenizer: t, " + data + "}\n" + more;
}

TEST(Texts, HaveTheClassesOfTheirFormat) {
  const auto labels = [](const std::string& data) {
    return accepted(bert("sequence_classification", data)).model.facts();
  };
  EXPECT_EQ(labels("format: cola").labels, 2);
  EXPECT_EQ(labels("format: mnli").labels, 3);
  EXPECT_EQ(labels("format: stsb").problem, ProblemType::kRegression);
  const std::string columns = "columns: {text: a, label: b}";
  EXPECT_EQ(labels("format: csv, " + columns).labels, 2);
  EXPECT_EQ(labels("format: csv, labels: [x, y, z, w], " + columns).labels, 4);
  const Config conll = accepted(bert("token_classification", "format: conll, labels: [O, B-PER, I-PER]"));
  EXPECT_EQ(conll.model.facts().labels, 3);
  EXPECT_EQ(conll.derived.at("model.num_labels"), "data.labels");
  EXPECT_EQ(refusal("task: sequence_classification\nmodel: {type: bert, num_labels: 2}\n"
                    "data: {format: mnli, path: x, tokenizer: t}\n"),
            "c.yaml:2:33: model.num_labels 2 is not the number of classes of the data, 3");
}

TEST(Texts, ServeTheTasksTheyAreMadeFor) {
  EXPECT_EQ(refusal(bert("sequence_classification", "format: squad")),
            "c.yaml:3:39: data.format squad holds texts for task question_answering, not for "
            "sequence_classification");
  EXPECT_EQ(refusal("data: {path: x, tokenizer: t, format: csv}\n"),
            "c.yaml:1:39: data.format csv holds texts for task sequence_classification, not for causal_lm; "
            "'recollect tokenize' makes token files of texts");
  EXPECT_EQ(
      refusal(bert("question_answering", "format: squad, truncation: only_first")),
      "c.yaml:3:58: data.truncation has no effect with task question_answering: what has no room comes in "
      "further windows");
  EXPECT_EQ(refusal(bert("multiple_choice", "format: swag, truncation: only_first")), "accepted");
}

TEST(Texts, NeedATokenizerAndColumns) {
  EXPECT_EQ(
      refusal("task: sequence_classification\nmodel: {type: bert}\ndata: {format: cola, path: x}\n"),
      "c.yaml:3:16: data.tokenizer is missing: the data is text, and no model.pretrained says how it is "
      "read");
  EXPECT_EQ(refusal(bert("sequence_classification", "format: tsv")),
            "c.yaml:3:39: data.columns.text is missing: data.format tsv has columns of any name\n"
            "c.yaml:3:39: data.columns.label is missing: data.format tsv has columns of any name");
  EXPECT_EQ(refusal(bert("question_answering", "format: squad, stride: 384, sequence_length: 384")),
            "c.yaml:3:54: data.stride 384 leaves windows of data.sequence_length 384 nothing new");
}

// A text that a language model reads has the tokenizer beside model.pretrained; "bytes" says that it has none.
TEST(Texts, OfAModelThatWasThereHaveItsTokenizer) {
  const TemporaryFolder model;
  model.write("config.json", R"({"model_type": "gpt2"})");
  const auto read = [&](const std::string& more) {
    return accepted("model: {pretrained: " + model.path() + "}\ndata: {format: text, path: x" + more + "}\n");
  };
  EXPECT_EQ(
      remark_on_bytes(read("")),
      "data.format text without data.tokenizer reads bytes (ids 0-255); model.vocab_size is 50257: write "
      "data.tokenizer=FOLDER, or data.tokenizer=bytes to mean it");
  EXPECT_EQ(remark_on_bytes(accepted("model: {vocab_size: 256}\ndata: {format: text, path: x}\n")), "");
  model.write("tokenizer.json", "{}");
  const Config own = read("");
  EXPECT_EQ(own.data.tokenizer, model.path());
  EXPECT_EQ(own.derived.at("data.tokenizer"), "model.pretrained");
  EXPECT_TRUE(reads_texts(own));
  EXPECT_EQ(remark_on_bytes(own), "");
  for (const char* said : {", tokenizer: bytes", ", tokenizer: ''"}) {
    const Config bytes = read(said);
    EXPECT_EQ(bytes.data.tokenizer, "");
    EXPECT_FALSE(reads_texts(bytes));
    EXPECT_EQ(remark_on_bytes(bytes), "");
  }
}

TEST(Texts, WithoutThemTheirKeysHaveNoEffect) {
  EXPECT_EQ(
      refusal(bert("sequence_classification", "format: csv, labels: [a, a], columns: {text: t, label: l}")),
      "c.yaml:3:52: data.labels: two classes are called a");
  EXPECT_EQ(refusal("data: {format: tokens, path: x, tokenizer: t, columns: {text: a}}\n"),
            "c.yaml:1:44: data.tokenizer has no effect with data.format tokens: it holds no texts, and no "
            "tokens of which a model is saved\n"
            "c.yaml:1:63: data.columns.text has no effect with data.format tokens: it holds no texts");
  EXPECT_EQ(refusal("data: {format: tokens, path: x, tokenizer: t}\ncheckpoint: {save_model: true}\n"),
            "accepted")
      << "it goes beside the model";
  EXPECT_EQ(refusal(bert("sequence_classification", "format: cola, columns: {pair: b}, header: false")),
            "c.yaml:3:61: data.columns.pair has no effect with data.format cola and task "
            "sequence_classification: it has columns of its own\n"
            "c.yaml:3:73: data.header has no effect with data.format cola: only csv and tsv may be without a "
            "header");
  EXPECT_EQ(refusal(bert("sequence_classification", "format: cola, padding: longest")), "accepted");
  EXPECT_EQ(
      refusal(bert("sequence_classification", "format: cola", "evaluation: {n_best: 3, metrics: [f1]}\n")),
      "c.yaml:4:22: evaluation.n_best has no effect with evaluation.every_steps 0: nothing is evaluated\n"
      "c.yaml:4:34: evaluation.metrics has no effect with evaluation.every_steps 0: nothing is "
      "evaluated");
  EXPECT_EQ(
      refusal(bert("sequence_classification", "format: cola",
                   "evaluation: {n_best: 3, path: y, every_steps: 1}\n")),
      "c.yaml:4:22: evaluation.n_best has no effect with task sequence_classification: no answer is looked "
      "for");
}

}  // namespace
}  // namespace recollect::test::config_texts_test
