// `recollect predict` as its user meets it: the files that GLUE's and SQuAD's own evaluations read say what the JSON lines
// say, any mesh of ranks says the same, and the memory is the one that was predicted. (test_learning.cpp shows that
// predictions are right.)
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "tests/launch/process.h"

namespace recollect::test::predict_test {
namespace {

using nlohmann::json;

constexpr int kWords = 12;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// A BERT of random weights, large enough ones that samples are told apart, as a training has saved it.
class Predict : public testing::Test {
 protected:
  void save_model(const std::string& task, const std::string& data, const std::string& more = "") {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < kWords; ++i) vocabulary += word(i) + "\n";
    place_.folder().write("vocab.txt", vocabulary);
    place_.folder().write("predict.yaml", fmt::format(R"(
task: {}
model: {{type: bert, vocab_size: 20, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 12,
        max_position_embeddings: 32, initializer_range: 1}}
device: {{backend: reference}}
training: {{precision: fp64, max_steps: 1, seed: 5}}
optimizer: {{learning_rate: 0}}
data: {{{}, tokenizer: vocab.txt}}
logging: {{progress: off}}
checkpoint: {{save_model: true}}
output_dir: out
{})",
                                                      task, data, more));
    const Finished trained = place_.recollect({"train", "predict.yaml"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }

  static std::string word(int number) { return fmt::format("w{}", number); }
  std::string any_word() { return word(static_cast<int>(random_() % kWords)); }

  // What it writes, and its line about memory.
  std::string predict(const Words& words, int processes = 1) {
    const Words launcher =
        processes > 1 ? Words{"run", "--nproc-per-node", std::to_string(processes)} : Words{};
    const Finished finished = place_.recollect(
        launcher + Words{"predict", "predict.yaml", "--output", "predictions", "--verbose"} + words);
    EXPECT_EQ(finished.status, 0) << finished.err;
    said_ = finished.err + finished.out;  // the launcher passes both on
    return TemporaryFolder::read(place_.file("predictions"));
  }
  std::vector<json> objects(const Words& words, int processes = 1) {
    std::vector<json> all;
    for (const std::string& line : lines_of(predict(words, processes))) all.push_back(json::parse(line));
    return all;
  }
  // Bytes of the arena, predicted and measured.
  std::pair<int64_t, int64_t> arena() const {
    const auto number = [&](const std::string& before, const std::string& after) {
      const std::size_t end = said_.find(after), begin = said_.rfind(before, end);
      if (end == std::string::npos || begin == std::string::npos) return int64_t{-1};
      return static_cast<int64_t>(std::stoll(said_.substr(begin + before.size(), end - begin)));
    };
    return {number("arena ", " predicted"), number(", ", " measured")};
  }
  void expect_memory_as_predicted() const {
    const auto [predicted, measured] = arena();
    EXPECT_GT(predicted, 0) << said_;
    EXPECT_EQ(predicted, measured) << said_;
  }

  const Workplace place_;
  std::mt19937 random_{3};
  std::string said_;
};

class PredictGlue : public Predict {
 protected:
  // The labels are those of nobody; a test set has none.
  std::string pairs(int samples, int first_id, bool labelled) {
    std::string tsv = fmt::format("index\tsentence1\tsentence2{}\n", labelled ? "\tlabel" : "");
    for (int i = 0; i < samples; ++i)
      tsv += fmt::format("{}\t{}\t{}{}\n", first_id + i, any_word(), any_word(),
                         !labelled ? ""
                         : i % 2   ? "\tentailment"
                                   : "\tnot_entailment");
    return tsv;
  }
  void save_pairs_model() {
    place_.folder().write("train.tsv", pairs(4, 0, true));
    place_.folder().write("test.tsv", pairs(40, 100, false));
    save_model("sequence_classification", "format: rte, path: train.tsv");
  }
  const Words test_{"--data", "test.tsv"};
};

TEST_F(PredictGlue, WritesTheRowsNumbersAndTheClassesNames) {
  save_pairs_model();
  const std::vector<json> as_json = objects(test_);
  const std::vector<std::string> lines = lines_of(predict(test_ + Words{"--as", "glue"}));
  ASSERT_EQ(as_json.size(), 40u);
  ASSERT_EQ(lines.size(), 41u);
  EXPECT_EQ(lines[0], "index\tprediction");
  std::set<std::string> labels;
  for (std::size_t i = 0; i < as_json.size(); ++i) {
    const auto label = as_json[i].at("label").get<std::string>();
    labels.insert(label);
    EXPECT_EQ(as_json[i].at("id"), std::to_string(100 + i));
    EXPECT_EQ(lines[i + 1], fmt::format("{}\t{}", 100 + i, label));
    const std::vector<double> p = as_json[i].at("probabilities");
    ASSERT_EQ(p.size(), 2u);
    EXPECT_NEAR(p[0] + p[1], 1, 1e-12);
    EXPECT_EQ(label, p[0] >= p[1] ? "entailment" : "not_entailment");
  }
  EXPECT_EQ(labels.size(), 2u) << "both classes are predicted of some";
}

// SST-2's classes are numbers there, and its rows have none of their own before the test set; STS-B has scores.
TEST_F(PredictGlue, WritesNumbersWhereTheTaskHasThem) {
  place_.folder().write("train.tsv", "sentence\tlabel\nw0 w1\t0\nw2 w3\t1\nw4\t0\nw5 w6\t1\nw7\t1\nw8\t0\n");
  save_model("sequence_classification", "format: sst2, path: train.tsv");
  const Words held_out{"--data", "train.tsv"};
  const std::vector<json> classes = objects(held_out);
  const std::vector<std::string> numbers = lines_of(predict(held_out + Words{"--as", "glue"}));
  ASSERT_EQ(classes.size() + 1, numbers.size());
  for (std::size_t i = 0; i < classes.size(); ++i)
    EXPECT_EQ(numbers[i + 1], fmt::format("{}\t{}", i, classes[i].at("label") == "positive" ? 1 : 0));

  std::string rows =
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (int i = 0; i < 4; ++i)
    rows += fmt::format("{}\tg\tf\ty\to\ts\ts\t{}\t{}\t{}.5\n", i, any_word(), any_word(), i);
  place_.folder().write("scores.tsv", rows);
  std::filesystem::remove_all(place_.file("out"));
  save_model("sequence_classification", "format: stsb, path: scores.tsv");
  const Words scored{"--data", "scores.tsv"};
  const std::vector<json> values = objects(scored);
  const std::vector<std::string> lines = lines_of(predict(scored + Words{"--as", "glue"}));
  ASSERT_EQ(values.size() + 1, lines.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(lines[i + 1], fmt::format("{}\t{:.3f}", i, values[i].at("value").get<double>()));
}

// Rows are shared by data ranks, heads and products by tensor ranks.
TEST_F(PredictGlue, SaysTheSameOnAnyMesh) {
  save_pairs_model();
  const std::vector<json> alone = objects(test_);
  expect_memory_as_predicted();
  const auto [whole, measured] = arena();
  EXPECT_NE(said_.find("40 samples, 200 tokens"), std::string::npos) << said_;
  const auto expect_same = [&](const std::vector<json>& all, const std::string& mesh) {
    EXPECT_NE(said_.find("40 samples, 200 tokens"), std::string::npos) << said_;
    expect_memory_as_predicted();
    ASSERT_EQ(all.size(), alone.size()) << mesh;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].at("id"), alone[i].at("id"));
      EXPECT_EQ(all[i].at("label"), alone[i].at("label"));
      EXPECT_NEAR(all[i].at("probabilities").at(0).get<double>(),
                  alone[i].at("probabilities").at(0).get<double>(), 1e-12)
          << mesh;
    }
  };
  const Words two{"parallelism.ranks_per_process=2"}, divided{"parallelism.tensor_parallel_size=2"};
  expect_same(objects(test_ + two), "2 data ranks");
  EXPECT_EQ(arena().first, whole);
  expect_same(objects(test_, 2), "2 data ranks, each a process");
  expect_same(objects(test_ + two + divided), "2 tensor ranks");
  EXPECT_LT(arena().first, whole);
  expect_same(objects(test_ + divided + Words{"parallelism.ranks_per_process=4"}), "2 x 2");
}

// What a row is known by stands beside what is predicted of it; of CSV and JSON lines the same.
TEST_F(Predict, PassesOnWhatTheRowsHave) {
  place_.folder().write("train.csv", "text,label\nw0,bad\nw1,good\n");
  save_model("sequence_classification",
             "format: csv, path: train.csv, columns: {text: text, label: label}, labels: [bad, good]");
  place_.folder().write(
      "unseen.csv",
      "id,text,label,note\n7,w1 w2,?,\"a, \"\"b\"\"\"\n,w3,?,\"two\nlines\"\n0012,w4 w5 w6,good,\n");
  const std::vector<json> all = objects({"--data", "unseen.csv"});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].at("id"), "7");
  EXPECT_EQ(all[0].at("note"), "a, \"b\"");
  EXPECT_EQ(all[1].at("note"), "two\nlines");
  EXPECT_EQ(all[2].at("id"), "0012");
  EXPECT_EQ(all[2].at("input_label"), "good");
  std::string csv = "index,id,text,input_label,note,label,probability_bad,probability_good\n";
  const char* const begins[] = {"0,7,w1 w2,?,\"a, \"\"b\"\"\"", "1,,w3,?,\"two\nlines\"",
                                "2,0012,w4 w5 w6,good,"};
  for (std::size_t i = 0; i < 3; ++i)
    csv += fmt::format("{},{},{},{}\n", begins[i], all[i].at("label").get<std::string>(),
                       all[i].at("probabilities").at(0).dump(), all[i].at("probabilities").at(1).dump());
  EXPECT_EQ(predict({"--data", "unseen.csv", "--as", "csv"}), csv);
  const Finished by_name =
      place_.recollect({"predict", "predict.yaml", "--data", "unseen.csv", "--output", "p.csv"});
  EXPECT_EQ(by_name.status, 0) << by_name.err;
  EXPECT_EQ(TemporaryFolder::read(place_.file("p.csv")), csv);
  EXPECT_EQ(lines_of(predict({"--data", "unseen.csv", "--as", "tsv"})).at(1).substr(0, 19),
            "0\t7\tw1 w2\t?\ta, \"b\"\t");

  place_.folder().write(
      "unseen.jsonl",
      "{\"text\": \"w1 w2\", \"id\": 12345678901234567890, \"nested\": {\"b\": 1, \"a\": null}}\n"
      "{\"id\": true, \"text\": \"w3\", \"index\": 9}\n{\"text\": \"w4 w5 w6\"}\n");
  const Words jsonl{"--data", "unseen.jsonl", "evaluation.format=jsonl"};
  const std::vector<json> again = objects(jsonl);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].at("id").dump(), "12345678901234567890");
  EXPECT_EQ(again[0].at("nested").dump(), "{\"a\":null,\"b\":1}");
  EXPECT_EQ(again[1].at("id"), true);
  EXPECT_EQ(again[1].at("input_index"), 9);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i].at("probabilities"), all[i].at("probabilities"));
  const std::vector<std::string> table = lines_of(predict(jsonl + Words{"--as", "csv"}));
  EXPECT_EQ(table.at(0), "index,text,id,nested,label,probability_bad,probability_good,input_index");
  EXPECT_TRUE(table.at(1).starts_with("0,w1 w2,12345678901234567890,\"{\"\"b\"\":1,\"\"a\"\":null}\","))
      << table.at(1);
  EXPECT_TRUE(table.at(3).ends_with(",")) << table.at(3);
}

// The model of the best evaluation goes before that of the last step, which a word takes.
TEST_F(Predict, TakesTheBestModelAndSaysSo) {
  place_.folder().write("train.csv", "text,label\nw0,bad\nw1,good\n");
  save_model("sequence_classification",
             "format: csv, path: train.csv, columns: {text: text, label: label}, labels: [bad, good]");
  const Words data{"predict", "predict.yaml", "--data", "train.csv"};
  const Finished last = place_.recollect(data);
  EXPECT_EQ(last.err, "");
  const Finished trained = place_.recollect({"train", "predict.yaml", "training.seed=6", "output_dir=other",
                                             "evaluation.path=train.csv", "evaluation.every_steps=1",
                                             "checkpoint.save_best_model=true"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::filesystem::rename(place_.file("other/best_model"), place_.file("out/best_model"));
  const Finished best = place_.recollect(data);
  EXPECT_TRUE(best.err.starts_with("recollect: out/best_model is the best model, of step 1 (eval_loss "))
      << best.err;
  EXPECT_NE(best.out, last.out);
  const Finished named = place_.recollect(data + Words{"model.pretrained=out"});
  EXPECT_EQ(named.out, last.out);
  EXPECT_EQ(named.err, "");
  std::filesystem::remove(place_.file("out/model.safetensors"));
  EXPECT_EQ(place_.recollect(data).out, best.out);
}

class PredictSquad : public Predict {
 protected:
  // Questions of which the last has no answer, where `version` is 2.
  std::string questions(int version) {
    std::string all;
    for (int i = 0; i < 6; ++i) {
      const std::string answer = any_word();
      std::string context = answer;
      for (int j = 0; j < 8; ++j) context += " " + any_word();
      const bool impossible = version == 2 && i == 5;
      all += fmt::format(
          R"({}{{"context": "{}", "qas": [{{"id": "q{}", "question": "{} {}"{}, "answers": [{}]}}]}})",
          i ? ",\n" : "", context, i, any_word(), any_word(),
          version == 2 ? fmt::format(", \"is_impossible\": {}", impossible) : "",
          impossible ? "" : fmt::format(R"({{"text": "{}", "answer_start": 0}})", answer));
    }
    return fmt::format(R"({{"version": "{}", "data": [{{"title": "t", "paragraphs": [{}]}}]}})",
                       version == 2 ? "v2.0" : "1.1", all);
  }
  json squad(const Words& words) { return json::parse(predict(words + Words{"--as", "squad"})); }
};

TEST_F(PredictSquad, LeavesUnansweredWhatTheThresholdSays) {
  place_.folder().write("v2.json", questions(2));
  save_model("question_answering", "format: squad, path: v2.json, stride: 4");
  const Words v2{"--data", "v2.json"};
  const std::vector<json> never = objects(v2 + Words{"evaluation.null_threshold=1e6"});
  expect_memory_as_predicted();
  ASSERT_EQ(never.size(), 6u);
  std::vector<double> above;
  for (const json& line : never) {
    EXPECT_NE(line.at("answer"), "") << line;
    above.push_back(line.at("none_above_best"));
  }
  std::sort(above.begin(), above.end());
  ASSERT_LT(above[2], above[3]);
  const double between = (above[2] + above[3]) / 2;
  const json some = squad(v2 + Words{fmt::format("evaluation.null_threshold={}", between)});
  ASSERT_EQ(some.size(), 6u);
  int empty = 0;
  for (const json& line : never) {
    const json& answer = some.at(line.at("id").get<std::string>());
    const bool absent = line.at("none_above_best") > between;
    empty += absent;
    EXPECT_EQ(answer, absent ? json("") : line.at("answer")) << line;
  }
  EXPECT_EQ(empty, 3);
  const json none = squad(v2 + Words{"evaluation.null_threshold=-1e6"});
  EXPECT_EQ(none.size(), 6u);
  for (const auto& [id, answer] : none.items()) EXPECT_EQ(answer, "") << id;
}

// Where every question has an answer, so has every prediction, whatever the model thinks of it.
TEST_F(PredictSquad, AnswersEverythingOfVersionOne) {
  place_.folder().write("v1.json", questions(1));
  save_model("question_answering", "format: squad, path: v1.json, stride: 4");
  const json all = squad({"--data", "v1.json"});
  EXPECT_EQ(all.size(), 6u);
  for (const auto& [id, answer] : all.items()) EXPECT_NE(answer, "") << id;
  const Finished glue = place_.recollect({"predict", "predict.yaml", "--data", "v1.json", "--as", "glue"});
  EXPECT_EQ(glue.status, 2);
  EXPECT_NE(glue.err.find("--as glue, and data.format squad is none of GLUE's"), std::string::npos)
      << glue.err;
}

TEST(PredictRefuses, WhatNothingCanBePredictedWith) {
  const Workplace place;
  const auto says = [&](const Words& words) {
    const Finished finished = place.recollect(Words{"predict"} + words);
    EXPECT_EQ(finished.status, 2) << finished.err;
    return finished.err.substr(0, finished.err.find('\n'));
  };
  EXPECT_EQ(says({"c.yaml"}), "recollect: task causal_lm: predict is for heads with few classes");
  place.folder().write("r.yaml",
                       "task: sequence_classification\n"
                       "model: {type: bert, vocab_size: 20, hidden_size: 8, num_hidden_layers: 1, "
                       "num_attention_heads: 2, intermediate_size: 12, max_position_embeddings: 32}\n"
                       "data: {format: random}\ntraining: {max_steps: 1}\n");
  EXPECT_EQ(says({"r.yaml", "--data", "unseen.csv"}),
            "recollect: data.format random: there are no samples of which predict could say anything");
}

}  // namespace
}  // namespace recollect::test::predict_test
