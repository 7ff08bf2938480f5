// From the files that people have to a metric: small BERTs learn, from each format, what its generated data teaches.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/launch/process.h"

namespace recollect::test::learning_test {
namespace {

constexpr int kWords = 40;  // of the vocabulary, w0 to w39
constexpr int kTrained = 320, kEvaluated = 80;

std::string vocabulary() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
  for (int i = 0; i < kWords; ++i) lines += fmt::format("w{}\n", i);
  return lines;
}

std::string word(int number) { return fmt::format("w{}", number); }

// Words that teach nothing: w10 and above.
std::vector<std::string> any_words(std::mt19937& random, int least, int most) {
  std::vector<std::string> words;
  for (int n = least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)); n > 0; --n)
    words.push_back(word(10 + static_cast<int>(random() % (kWords - 10))));
  return words;
}

std::string with(std::vector<std::string> words, const std::string& one, std::mt19937& random) {
  words[random() % words.size()] = one;
  return fmt::format("{}", fmt::join(words, " "));
}

// w0 stands in one class, w1 in the other.
std::string classification(std::mt19937& random, int samples) {
  std::string csv = "text,label\n";
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 2);
    csv += fmt::format("\"{}, .\",{}\n", with(any_words(random, 4, 12), word(label), random),
                       label ? "yes" : "no");
  }
  return csv;
}

std::string classification_lines(std::mt19937& random, int samples) {
  std::string lines;
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 2);
    lines += fmt::format("{{\"text\": \"{}\", \"label\": \"{}\"}}\n",
                         with(any_words(random, 4, 12), word(label), random), label ? "yes" : "no");
  }
  return lines;
}

std::string sentences(std::mt19937& random, int samples) {
  std::string tsv = "sentence\tlabel\n";
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 2);
    tsv += fmt::format("{}\t{}\n", with(any_words(random, 4, 12), word(label), random), label);
  }
  return tsv;
}

// Two sentences are alike where both have w0.
std::string pairs(std::mt19937& random, int samples) {
  std::string tsv = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 2);
    tsv += fmt::format("{}\t1\t2\t{}\t{}\n", label, with(any_words(random, 3, 8), word(0), random),
                       with(any_words(random, 3, 8), word(label ? 0 : 1), random));
  }
  return tsv;
}

// The score is how often w0 stands in the second sentence.
std::string scores(std::mt19937& random, int samples) {
  std::string tsv =
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (int i = 0; i < samples; ++i) {
    const int score = static_cast<int>(random() % 4);
    std::vector<std::string> words = any_words(random, 4, 8);
    for (int j = 0; j < score; ++j) words[static_cast<std::size_t>(j)] = word(0);
    tsv += fmt::format("{}\tg\tf\ty\to\ts\ts\t{}\t{}\t{}.0\n", i, fmt::join(any_words(random, 2, 4), " "),
                       fmt::join(words, " "), score);
  }
  return tsv;
}

// The right ending has w0.
std::string choices(std::mt19937& random, int samples) {
  std::string csv =
      ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n";
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 4);
    csv += fmt::format("{},v,f,p,{},w10,gold", i, fmt::join(any_words(random, 2, 5), " "));
    for (int ending = 0; ending < 4; ++ending)
      csv += "," + with(any_words(random, 2, 6), word(ending == label ? 0 : 1), random);
    csv += fmt::format(",{}\n", label);
  }
  return csv;
}

std::string choice_lines(std::mt19937& random, int samples) {
  std::string lines;
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random() % 3);
    std::vector<std::string> endings;
    for (int ending = 0; ending < 3; ++ending)
      endings.push_back(with(any_words(random, 2, 6), word(ending == label ? 0 : 1), random));
    lines += fmt::format("{{\"prompt\": \"{}\", \"endings\": [\"{}\"], \"label\": {}}}\n",
                         fmt::join(any_words(random, 2, 5), " "), fmt::join(endings, "\", \""), label);
  }
  return lines;
}

// The answer is the words between w0 and w1. In version 2 half of the contexts have neither, and no answer.
std::string questions_of(std::mt19937& random, int samples, bool version_two) {
  std::vector<std::string> entries;
  for (int i = 0; i < samples; ++i) {
    const bool absent = version_two && random() % 2 == 0;
    const std::string before =
                          fmt::format("{} {}", fmt::join(any_words(random, 1, 8), " "), absent ? "" : "w0 "),
                      answer = fmt::format("{}", fmt::join(any_words(random, 1, 2), " ")),
                      after =
                          fmt::format("{} {}", absent ? "" : " w1", fmt::join(any_words(random, 1, 8), " "));
    entries.push_back(fmt::format(
        "{{\"context\": \"{}{}{}\", \"qas\": [{{\"id\": \"q{}\", \"question\": \"w2 w3\", {}\"answers\": "
        "[{}]}}]}}",
        before, answer, after, i, version_two ? fmt::format("\"is_impossible\": {}, ", absent) : "",
        absent ? "" : fmt::format("{{\"text\": \"{}\", \"answer_start\": {}}}", answer, before.size())));
  }
  return fmt::format("{{\"version\": \"{}\", \"data\": [{{\"title\": \"t\", \"paragraphs\": [{}]}}]}}",
                     version_two ? "v2.0" : "1.1", fmt::join(entries, ",\n"));
}

std::string questions(std::mt19937& random, int samples) { return questions_of(random, samples, false); }
std::string questions_two(std::mt19937& random, int samples) { return questions_of(random, samples, true); }

// w0 begins a person's name, which w1 goes on with; w2 is a place.
std::string entities(std::mt19937& random, int samples) {
  std::string lines = "-DOCSTART- -X- O O\n\n";
  for (int i = 0; i < samples; ++i) {
    for (const std::string& plain : any_words(random, 2, 8)) {
      if (random() % 4 == 0)
        lines += random() % 2 ? "w0 N B-NP B-PER\nw1 N I-NP I-PER\n" : "w2 N B-NP B-LOC\n";
      lines += plain + " N B-NP O\n";
    }
    lines += '\n';
  }
  return lines;
}

// The same in tags for each word.
std::string tagged_lines(std::mt19937& random, int samples) {
  std::string lines;
  for (int i = 0; i < samples; ++i) {
    std::vector<std::string> tokens, tags;
    for (const std::string& plain : any_words(random, 2, 8)) {
      if (random() % 4 == 0) {
        const bool person = random() % 2;
        tokens.insert(tokens.end(), person ? std::initializer_list<std::string>{"w0", "w1"}
                                           : std::initializer_list<std::string>{"w2"});
        tags.insert(tags.end(), person ? std::initializer_list<std::string>{"B-PER", "I-PER"}
                                       : std::initializer_list<std::string>{"B-LOC"});
      }
      tokens.push_back(plain);
      tags.push_back("O");
    }
    lines += fmt::format("{{\"tokens\": [\"{}\"], \"tags\": [\"{}\"]}}\n", fmt::join(tokens, "\", \""),
                         fmt::join(tags, "\", \""));
  }
  return lines;
}

struct Format {
  const char* name;
  const char* task;
  std::string (*make)(std::mt19937&, int samples);
  Words words;
  const char* metric;
  double least;
  int steps;
  bool (*is_right)(const nlohmann::json& prediction, int sample, const std::string& file) = nullptr;
};

std::string line_of(const std::string& file, int number) {
  std::ifstream lines(file);
  std::string line;
  for (int i = 0; i <= number; ++i) std::getline(lines, line);
  return line;
}

bool has_label(const nlohmann::json& prediction, int sample, const std::string& file) {
  return line_of(file, sample + 1).ends_with("," + prediction.at("label").get<std::string>());
}

bool has_choice(const nlohmann::json& prediction, int sample, const std::string& file) {
  return line_of(file, sample + 1).ends_with("," + prediction.at("choice").dump());
}

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class Learning : public testing::TestWithParam<Format> {};

TEST_P(Learning, ReachesItsMetric) {
  const Format& format = GetParam();
  const Workplace place;
  place.folder().write("vocab.txt", vocabulary());
  place.folder().write("empty.yaml", "{}\n");
  std::mt19937 random(5);
  place.folder().write("train", format.make(random, kTrained));
  place.folder().write("held-out", format.make(random, kEvaluated));
  const Words common = {"empty.yaml",
                        "output_dir=out",
                        "model.type=bert",
                        "model.vocab_size=48",
                        "model.hidden_size=32",
                        "model.num_hidden_layers=2",
                        "model.num_attention_heads=2",
                        "model.intermediate_size=64",
                        "model.max_position_embeddings=40",
                        "model.initializer_range=0.1",
                        "model.hidden_dropout_prob=0",
                        "model.attention_probs_dropout_prob=0",
                        "optimizer.learning_rate=2e-3",
                        "scheduler.name=linear",
                        "training.micro_batch_size=16",
                        "data.path=train",
                        "data.tokenizer=vocab.txt",
                        "data.padding=longest",
                        "evaluation.path=held-out",
                        "memory_report.at=[]",
                        "device.threads=1"};
  const Words words = common + format.words + Words{std::string("task=") + format.task};
  const Finished run = place.recollect(Words{"train"} + words +
                                       Words{"training.max_steps=" + std::to_string(format.steps),
                                             "evaluation.every_steps=1000", "checkpoint.save_model=true"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto last = place.metrics().back();
  ASSERT_TRUE(last.contains(format.metric)) << last;
  EXPECT_GE(last.at(format.metric).get<double>(), format.least) << last;

  // What was saved says the same of the same set, sequences back to back instead of padded.
  const Finished predicted =
      place.recollect(Words{"predict"} + words + Words{"--output", "predictions", "--verbose"});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  std::ifstream lines(place.file("predictions"));
  int samples = 0, right = 0;
  for (std::string line; std::getline(lines, line); ++samples) {
    const auto prediction = nlohmann::json::parse(line);
    EXPECT_EQ(prediction.dump().find("null"), std::string::npos) << prediction;
    if (format.is_right) right += format.is_right(prediction, samples, place.file("held-out"));
  }
  EXPECT_EQ(samples, kEvaluated);
  // A run's own resolved configuration does as well, and what is read cannot be written.
  const Words resolved = {"predict", "out/config.resolved.yaml", "--output"};
  EXPECT_EQ(place.recollect(resolved + Words{"again"}).status, 0);
  EXPECT_EQ(line_of(place.file("again"), kEvaluated - 1), line_of(place.file("predictions"), kEvaluated - 1));
  for (const char* read : {"out/model.safetensors", "out/config.json", "held-out", "vocab.txt"})
    EXPECT_EQ(place.recollect(resolved + Words{read}).status, 2) << read;
  if (!format.is_right) return;
  EXPECT_NEAR(static_cast<double>(right) / samples, last.at("eval_accuracy").get<double>(), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    All, Learning,
    testing::Values(
        Format{"Csv",
               "sequence_classification",
               classification,
               {"data.format=csv", "data.columns.text=text", "data.columns.label=label",
                "data.labels=[no, yes]"},
               "eval_accuracy",
               0.95,
               60,
               has_label},
        Format{"Jsonl",
               "sequence_classification",
               classification_lines,
               {"data.format=jsonl", "data.columns.text=text", "data.columns.label=label",
                "data.labels=[no, yes]"},
               "eval_accuracy",
               0.95,
               60},
        Format{"Sst2", "sequence_classification", sentences, {"data.format=sst2"}, "eval_accuracy", 0.95, 60},
        Format{"JsonlChoices",
               "multiple_choice",
               choice_lines,
               {"data.format=jsonl", "data.choices=3"},
               "eval_accuracy",
               0.9,
               60},
        Format{"Mrpc", "sequence_classification", pairs, {"data.format=mrpc"}, "eval_f1", 0.9, 80},
        Format{"Stsb", "sequence_classification", scores, {"data.format=stsb"}, "eval_pearson", 0.9, 80},
        Format{
            "Swag", "multiple_choice", choices, {"data.format=swag"}, "eval_accuracy", 0.9, 60, has_choice},
        Format{"Squad",
               "question_answering",
               questions,
               {"data.format=squad", "data.stride=8"},
               "eval_exact_match",
               80,
               400},
        Format{"SquadTwo",
               "question_answering",
               questions_two,
               {"data.format=squad", "data.stride=8"},
               "eval_exact_match",
               80,
               300},
        Format{"JsonlTags",
               "token_classification",
               tagged_lines,
               {"data.format=jsonl", "data.labels=[O, B-PER, I-PER, B-LOC]"},
               "eval_f1",
               0.95,
               80},
        Format{"Conll",
               "token_classification",
               entities,
               {"data.format=conll", "data.labels=[O, B-PER, I-PER, B-LOC]"},
               "eval_f1",
               0.95,
               80}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::learning_test
