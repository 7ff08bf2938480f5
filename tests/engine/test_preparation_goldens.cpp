// What Transformers' example scripts make of a thousand odd records of each format, and what prepare() does, of the same
// records as files: ids, types, labels, windows, positions and places, by two tokenizers and any number of threads.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/data/prepare.h"
#include "engine/data/tokenizer/unicode.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using nlohmann::json;
using test::TemporaryFolder;

constexpr std::size_t kRecords = 1000, kBlock = 100;
constexpr const char* kLabels[] = {"n\u00f6", "yes", "10", "2"};
constexpr const char* kTags[] = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};

// The rules of tests/golden/make_preparation_goldens.py.
std::string_view first_points(std::string_view text, std::size_t points) {
  std::size_t at = 0;
  while (at < text.size() && points-- > 0) decode_utf8(text, at);
  return text.substr(0, at);
}

std::vector<std::string_view> split_at_blanks(std::string_view text) {
  std::vector<std::string_view> words;
  for (;; text.remove_prefix(words.back().size() + 1)) {
    words.push_back(text.substr(0, text.find(' ')));
    if (words.back().size() == text.size()) return words;
  }
}

std::string csv_field(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + "\"";
}

class PreparationGoldens : public ::testing::Test {
 protected:
  PreparationGoldens()
      : golden_(json::parse(TemporaryFolder::read(RECOLLECT_SOURCE_DIR "/tests/golden/preparation.json"))),
        texts_(test::odd_texts(4000)) {
    const json pairs = json::parse(TemporaryFolder::read(test::tokenizer_golden_folder() + "/pairs.json"));
    json gpt2 = json::parse(TemporaryFolder::read(test::tokenizer_golden_folder() + "/gpt2/tokenizer.json"));
    gpt2.update(pairs["variants"]["gpt2_roberta"]);
    tokenizers_["gpt2"] = load_tokenizer(folder_.write("gpt2/tokenizer.json", gpt2.dump()));
    tokenizers_["bert"] = load_tokenizer(test::tokenizer_golden_folder() + "/bert/tokenizer.json");
  }

  // What `spec` makes of the file, by both tokenizers, against the goldens.
  void check(const std::string& name, PreparationSpec spec, const std::string& content) {
    spec.paths = {folder_.write(name, content)};
    for (const auto& [tokenizer_name, tokenizer] : tokenizers_) {
      SCOPED_TRACE(tokenizer_name + ", " + name);
      spec.vocabulary_size = static_cast<int64_t>(tokenizer->vocabulary_size());
      const json& golden = golden_[tokenizer_name][name];
      spec.sequence_length = golden.value("length", spec.sequence_length);
      spec.stride = golden.value("stride", spec.stride);
      for (spec.threads = 1; spec.threads <= 3; spec.threads += 2) {
        const Prepared prepared = prepare(spec, *tokenizer);
        EXPECT_EQ(json(prepared.labels), golden["labels"]);
        EXPECT_EQ(digests(prepared), golden["blocks"].get<std::vector<std::string>>());
        if (prepared.questions) {
          EXPECT_EQ(prepared.samples->size(), golden["windows"].get<int64_t>());
        }
      }
    }
  }

  static void add(std::vector<uint32_t>& words, std::span<const int32_t> values) {
    words.push_back(static_cast<uint32_t>(values.size()));
    words.insert(words.end(), values.begin(), values.end());
  }

  // Of each block of records.
  static std::vector<std::string> digests(const Prepared& prepared) {
    std::vector<std::string> blocks;
    std::vector<uint32_t> words;
    std::size_t record = 0;
    const auto end_record = [&] {
      if (++record % kBlock != 0) return;
      blocks.push_back(test::fnv(words));
      words.clear();
    };
    Fields sample;
    for (int64_t i = 0; i < prepared.samples->size(); ++i) {
      sample.clear();
      prepared.samples->read(i, sample);
      EXPECT_EQ(sample.longest(), prepared.samples->length(i));
      for (const char* name : {"ids", "token_types"})
        for (std::size_t row = 0; row < sample.field(name).rows(); ++row)
          add(words, sample.field(name).row(row));
      if (!prepared.questions) {
        add(words, sample["labels"]);
        end_record();
        continue;
      }
      const auto window = static_cast<std::size_t>(i);
      const QuestionAnsweringSet& set = *prepared.questions;
      const uint32_t example = set.windows[window].example;
      add(words, std::vector<int32_t>{sample["start"].front(), sample["end"].front()});
      add(words, std::vector<int32_t>{static_cast<int32_t>(example)});
      std::vector<int32_t> places;
      for (std::size_t token = 0; token < sample["ids"].size(); ++token) {
        const auto place = set.place(window, token);
        places.push_back(place ? static_cast<int32_t>(place->begin) : -1);
        places.push_back(place ? static_cast<int32_t>(place->end) : -1);
      }
      add(words, places);
      if (window + 1 == set.windows.size() || set.windows[window + 1].example != example) end_record();
    }
    return blocks;
  }

  json golden_;
  std::vector<std::string> texts_;
  TemporaryFolder folder_;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers_;
};

TEST_F(PreparationGoldens, OfTheSameTexts) {
  std::string all;
  for (const std::string& text : texts_) all += (all.empty() ? "" : "\n") + text;
  EXPECT_EQ(golden_["text"], test::fnv(all));
}

TEST_F(PreparationGoldens, Classification) {
  std::string file = "pair,label,text\n";
  for (std::size_t i = 0; i < kRecords; ++i)
    file += csv_field(texts_[1000 + i]) + "," + kLabels[i % 4] + "," + csv_field(texts_[i]) +
            (i % 2 ? "\n" : "\r\n");
  PreparationSpec spec{.text = "text", .label = "label", .sequence_length = 40};
  check("csv", spec, file);
  spec.pair = "pair";
  spec.sequence_length = 48;
  check("csv_pairs", spec, file);
}

// Quotes are characters like others there.
TEST_F(PreparationGoldens, TablesWithTabs) {
  const auto field = [&](std::size_t number) {
    std::string text = texts_[number];
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
    return text;
  };
  std::string cola, mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", tsv = "second\tfirst\tname\n";
  for (std::size_t i = 0; i < kRecords; ++i) {
    const std::string first = field(2000 + i), second = field(3000 + i);
    cola += fmt::format("gj04\t{}\t{}\t{}\n", i % 2, i % 2 ? "" : "*", first);
    mrpc += fmt::format("{}\t{}\t{}\t{}\t{}\n", i % 2, i, i + 1, first, second);
    tsv += fmt::format("{}\t{}\t{}\n", second, first, "abc"[i % 3]);
  }
  PreparationSpec spec{.format = DataFormat::kCola, .sequence_length = 40};
  check("cola", spec, cola);
  spec.format = DataFormat::kMrpc;
  spec.sequence_length = 48;
  check("mrpc", spec, mrpc);
  check(
      "tsv",
      {.format = DataFormat::kTsv, .text = "first", .pair = "second", .label = "name", .sequence_length = 56},
      tsv);
}

TEST_F(PreparationGoldens, MultipleChoice) {
  std::string swag = ",sent1,sent2,ending0,ending1,ending2,ending3,label\n", lines;
  for (std::size_t i = 0; i < kRecords; ++i) {
    const auto ending = [&](std::size_t k) { return texts_[2000 + (7 * i + 13 * k) % 2000]; };
    swag += fmt::format("{},{},{}", i, csv_field(texts_[i]), csv_field(first_points(texts_[1000 + i], 12)));
    for (std::size_t k = 0; k < 4; ++k) swag += "," + csv_field(ending(k));
    swag += fmt::format(",{}\n", 3 * i % 4);
    lines +=
        json{{"prompt", texts_[i]}, {"endings", {ending(0), ending(1), ending(2)}}, {"label", 0}}.dump() +
        "\n";
  }
  PreparationSpec spec{.format = DataFormat::kSwag, .task = DataTask::kMultipleChoice, .sequence_length = 64};
  check("swag", spec, swag);
  spec.format = DataFormat::kJsonl;
  spec.sequence_length = 32;
  check("choices", spec, lines);
}

TEST_F(PreparationGoldens, TokenClassification) {
  std::string conll = "-DOCSTART- -X- O O\n\n", lines;
  for (std::size_t i = 0; i < kRecords; ++i) {
    const std::vector<std::string_view> words = split_at_blanks(texts_[i]);
    json tags = json::array();
    for (std::size_t k = 0; k < words.size(); ++k) tags.push_back((i + k) % 11);
    lines += json{{"tokens", words}, {"tags", tags}}.dump() + "\n";
    std::size_t k = 0;
    conll += fmt::format("the X\t{}\n", kTags[i % 5]);
    for (const std::string_view word : words)
      if (!word.empty() && word.find_first_of("\t\n\r") == std::string_view::npos)
        conll += fmt::format("{}  X {}\n", word, kTags[(i + ++k) % 5]);
    conll += i % 50 == 0 ? "\n-DOCSTART- -X- O O\n\n\r\n" : "\n";
  }
  PreparationSpec spec{
      .format = DataFormat::kConll, .task = DataTask::kTokenClassification, .sequence_length = 32};
  check("conll", spec, conll);
  spec.format = DataFormat::kJsonl;
  spec.sequence_length = 24;
  check("tags", spec, lines);
}

TEST_F(PreparationGoldens, QuestionAnswering) {
  json paragraphs = json::array();
  for (std::size_t i = 0; i < kRecords; ++i) {
    if (i % 4 == 0) {
      std::string context = "the whale";
      for (std::size_t k = 0; k < 4; ++k) context += " " + texts_[i + k];
      paragraphs.push_back({{"context", context}, {"qas", json::array()}});
    }
    const std::string& context = paragraphs.back()["context"].get_ref<const std::string&>();
    json question{{"id", fmt::to_string(i)}, {"answers", json::array()}};
    question["question"] = (i % 3 == 0 ? "\x1f\u00a0" : "") + std::string(first_points(texts_[1000 + i], 20));
    test::Random random(i);
    const std::size_t begin = random.below(count_points(context));
    const std::string_view behind = std::string_view(context).substr(first_points(context, begin).size());
    const std::string answer(first_points(behind, 1 + random.below(30)));
    question["is_impossible"] = i % 7 == 0;
    if (i % 7 != 0) question["answers"].push_back({{"answer_start", begin}, {"text", answer}});
    paragraphs.back()["qas"].push_back(question);
  }
  const PreparationSpec spec{.format = DataFormat::kSquad, .task = DataTask::kQuestionAnswering};
  json file{{"version", "v2.0"}, {"data", json::array()}};
  for (std::size_t i = 0; i < paragraphs.size(); i += 50)
    file["data"].push_back({{"title", "x"},
                            {"paragraphs", json(paragraphs.begin() + static_cast<std::ptrdiff_t>(i),
                                                paragraphs.begin() + static_cast<std::ptrdiff_t>(i + 50))}});
  check("squad", spec, file.dump(-1, ' ', true));
  check("squad", spec, file.dump(1));
}

}  // namespace
}  // namespace recollect
