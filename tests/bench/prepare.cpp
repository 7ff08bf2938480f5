// How fast files of each kind become samples, and how much memory that takes beside the file's size and the samples'. The
// files are made of a text's words: records of the lengths that SST-2, SWAG, CoNLL and SQuAD have.
//
//   bench_prepare TOKENIZER TEXT [threads, default 2]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <malloc.h>

#include "engine/core/error.h"
#include "engine/data/prepare.h"
#include "engine/data/squad.h"
#include "engine/io/input_file.h"
#include "engine/io/json.h"

namespace recollect::bench {
namespace {

class Words {
 public:
  explicit Words(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) words_.push_back(word);
    require(words_.size() > 1000, "a text of 1000 words and more is wanted");
  }
  // The next `count`, around the end.
  std::string next(std::size_t count, const char* between = " ") {
    std::string text;
    for (std::size_t i = 0; i < count; ++i, ++at_)
      text += (i == 0 ? "" : between) + words_[at_ % words_.size()];
    return text;
  }

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

std::string csv_field(const std::string& text) {
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + "\"";
}

std::string squad_file(Words& words, int paragraphs) {
  nlohmann::json all = nlohmann::json::array();
  for (int i = 0; i < paragraphs; ++i) {
    const std::string answer = words.next(3), before = words.next(50);
    nlohmann::json questions = nlohmann::json::array();
    for (int k = 0; k < 5; ++k)
      questions.push_back({{"id", fmt::format("{:024}", 5 * i + k)},
                           {"question", words.next(10) + "?"},
                           {"answers", nlohmann::json::array({{{"answer_start", 0}, {"text", answer}}})}});
    all.push_back({{"context", answer + " " + before + " " + words.next(70)}, {"qas", questions}});
  }
  return nlohmann::json{{"version", "1.1"},
                        {"data", nlohmann::json::array({{{"title", "x"}, {"paragraphs", all}}})}}
      .dump();
}

double megabytes_of(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return std::strtod(line.c_str() + std::string_view(key).size() + 1, nullptr) / 1024;
  return 0;
}

// Calls `work` and returns how far it went above the memory that was there before, in MB.
template <typename F>
double peak_of(F work) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak so far is forgotten
  const double before = megabytes_of("VmRSS");
  work();
  return megabytes_of("VmHWM") - before;
}

void measure(const char* name, PreparationSpec spec, const std::string& path, const Tokenizer& tokenizer,
             int threads) {
  spec.paths = {path};
  spec.vocabulary_size = static_cast<int64_t>(tokenizer.vocabulary_size());
  const double file = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
  for (spec.threads = 1; spec.threads <= threads; ++spec.threads) {
    double seconds = 1e9, peak = 0, samples = 0, bytes = 0;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      peak = std::max(peak, peak_of([&] {
                        const Prepared prepared = prepare(spec, tokenizer);
                        samples = static_cast<double>(prepared.samples->size());
                        bytes = static_cast<double>(prepared.samples->bytes()) / 1e6;
                      }));
      seconds =
          std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    fmt::print(
        "{:<6} {} threads: {:>7.0f} samples/s, of a file of {:.1f} MB; samples {:.1f} MB, peak {:.1f} MB\n",
        name, spec.threads, samples / seconds, file, bytes, peak);
  }
}

void run(const std::string& tokenizer_path, const std::string& text_path, int threads) {
  const auto tokenizer = load_tokenizer(tokenizer_path);
  Words words(InputFile(text_path).text());
  std::string pattern = (std::filesystem::temp_directory_path() / "bench_prepare_XXXXXX").string();
  require(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(pattern + "/" + name, std::ios::binary) << content;
    return pattern + "/" + name;
  };
  std::string csv = "text,label\n", swag = "sent1,sent2,ending0,ending1,ending2,ending3,label\n", conll;
  for (int i = 0; i < 40000; ++i) {
    csv += csv_field(words.next(20)) + (i % 2 ? ",a\n" : ",b\n");
    if (i % 4 == 0) {
      swag += csv_field(words.next(12)) + "," + csv_field(words.next(4));
      for (int k = 0; k < 4; ++k) swag += "," + csv_field(words.next(10));
      swag += fmt::format(",{}\n", i / 4 % 4);
      conll += words.next(14, " X O\n") + " X B\n\n";
    }
  }
  using enum DataTask;
  measure("csv", {.format = DataFormat::kCsv, .text = "text", .label = "label", .sequence_length = 128},
          write("a.csv", csv), *tokenizer, threads);
  measure("swag", {.format = DataFormat::kSwag, .task = kMultipleChoice, .sequence_length = 128},
          write("b.csv", swag), *tokenizer, threads);
  measure("conll", {.format = DataFormat::kConll, .task = kTokenClassification, .sequence_length = 128},
          write("c.txt", conll), *tokenizer, threads);
  const std::string squad = write("d.json", squad_file(words, 28000));
  const double peak = peak_of([&] {
    QuestionAnsweringSet set;
    BadRecords bad;
    read_squad(squad, true, set, bad);
  });
  fmt::print("squad  read alone: peak {:.1f} MB\n", peak);
  measure("squad",
          {.format = DataFormat::kSquad, .task = kQuestionAnswering, .sequence_length = 384, .stride = 128},
          squad, *tokenizer, threads);
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print("bench_prepare TOKENIZER TEXT [threads]\n");
    return 2;
  }
  try {
    recollect::bench::run(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 2);
  } catch (const recollect::Error& error) {
    fmt::print("{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
