// How fast text becomes tokens, against the wall clock and against the time that the cores themselves spent
// on it. The text is written several times into one temporary file, so that threads have chunks to share.
//
//   bench_tokenize TOKENIZER TEXT [threads, default 2]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "engine/core/error.h"
#include "engine/data/tokenize_corpus.h"
#include "engine/io/input_file.h"

namespace recollect::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{32} << 20;
constexpr int kRuns = 5;

void measure(const Tokenizer& tokenizer, const std::string& folder, int threads) {
  CorpusSpec spec;
  spec.inputs = {folder + "/text.txt"};
  spec.threads = threads;
  double wall = 1e9, cpu = 1e9;
  uint64_t bytes = 0;
  for (int run = 0; run < kRuns; ++run) {
    TokenWriter writer({folder + "/out.bin", "headerless", tokenizer.vocabulary_size(), {}});
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t spent = std::clock();
    bytes = tokenize_corpus(tokenizer, spec, writer, [](uint64_t, uint64_t) {});
    cpu = std::min(cpu, static_cast<double>(std::clock() - spent) / CLOCKS_PER_SEC);
    wall = std::min(wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double megabytes = static_cast<double>(bytes) / 1e6;
  fmt::print(
      "{} threads: {:.1f} MB/s by the wall clock, {:.1f} MB a second of a core (best of {}, {:.0f} MB)\n",
      threads, megabytes / wall, megabytes / cpu, kRuns, megabytes);
}

void run(const std::string& tokenizer_path, const std::string& text_path, int threads) {
  const auto tokenizer = load_tokenizer(tokenizer_path);
  std::string pattern = (std::filesystem::temp_directory_path() / "bench_tokenize_XXXXXX").string();
  require(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
  {
    const std::string text = InputFile(text_path).text();
    std::ofstream out(pattern + "/text.txt", std::ios::binary);
    for (std::size_t written = 0; written < kBytes && text.size() > 0; written += text.size()) out << text;
  }
  for (int n = 1; n <= threads; ++n) measure(*tokenizer, pattern, n);
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print("bench_tokenize TOKENIZER TEXT [threads]\n");
    return 2;
  }
  try {
    recollect::bench::run(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 2);
  } catch (const recollect::Error& error) {
    fmt::print("{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
