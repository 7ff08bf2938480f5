#include "launch/cli/tokenize.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/duration.h"
#include "engine/core/printable.h"
#include "engine/data/corpus.h"
#include "engine/data/find_files.h"
#include "engine/data/tokenize_corpus.h"
#include "engine/io/node.h"
#include "engine/io/output_file.h"
#include "engine/io/standard_output.h"
#include "engine/io/terminal.h"
#include "launch/cli/preview.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kConfiguration, what, hint);
}

double seconds_since(Clock::time_point start) {
  return std::max(1e-9, std::chrono::duration<double>(Clock::now() - start).count());
}

std::optional<uint32_t> end_of_document(const Tokenizer& tokenizer, const std::string& token) {
  if (token == "none") return std::nullopt;
  if (!token.empty()) {
    const auto id = tokenizer.find(token);
    if (!id) refuse(fmt::format("--end-of-document {} is no token of the vocabulary", token), "or say none");
    return id;
  }
  if (const auto id = usual_end_of_document(tokenizer)) return id;
  refuse(
      "the tokenizer has no eos_token, and none of <|endoftext|>, <|end_of_text|>, </s>, <eos> and [SEP], to "
      "end "
      "documents with",
      "name a token with --end-of-document TOKEN, or say --end-of-document none");
}

// On a terminal, one line that is written over every now and then.
class ProgressLine {
 public:
  void show(uint64_t done, uint64_t all) {
    if (!terminal_ || (seconds_since(shown_) < 0.2 && done < all)) return;
    shown_ = Clock::now();
    const double megabytes = static_cast<double>(done) / 1e6;
    fmt::print("\r{:3.0f} %  {:.1f} of {:.1f} MB  {:.1f} MB/s ",
               100.0 * static_cast<double>(done) / std::max(1.0, static_cast<double>(all)), megabytes,
               static_cast<double>(all) / 1e6, megabytes / seconds_since(start_));
    std::fflush(stdout);
    drawn_ = true;
  }
  ~ProgressLine() {
    if (drawn_) fmt::print("\n");
  }

 private:
  const bool terminal_ = may_draw_on(STDOUT_FILENO);
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool drawn_ = false;
};

struct TokenizeOptions {
  std::string tokenizer, end, type, learn;
  PreviewSpec preview;
  CorpusSpec corpus;
  TokenFileSpec file;

  OptionTable options();
};

OptionTable TokenizeOptions::options() {
  namespace po = boost::program_options;
  file.format = "llm.c";
  corpus.key = "text";
  corpus.threads = cores_to_use();
  OptionTable table;
  table.add_options()("tokenizer", po::value(&tokenizer)->value_name("PATH"),
                      "a tokenizer's file, or its folder")(
      "output", po::value(&file.path)->value_name("FILE"),
      "the token file; of megatron, what its two files have in common")(
      "format", po::value(&file.format)->value_name("llm.c|headerless|megatron"), "llm.c where not given")(
      "dtype", po::value(&type)->value_name("uint16|uint32"),
      "of a headerless file; as narrow as the vocabulary allows otherwise")(
      "key", po::value(&corpus.key)->value_name("KEY"), "of the text in *.jsonl; text where not given")(
      "end-of-document", po::value(&end)->value_name("TOKEN|none"),
      "what follows each text; the first of <|endoftext|>, <|end_of_text|>, </s>, <eos>, [SEP] that there is "
      "where not given")("threads", po::value(&corpus.threads)->value_name("N"), "all cores where not given")(
      "preview", po::value(&preview.samples)->value_name("N"),
      "shows the first N records, conversations too, and which tokens are learned; no file is written")(
      "learn", po::value(&learn)->value_name("WHAT"), "of --preview: as data.learn, such as all")(
      "chat-template", po::value(&preview.chat_template)->value_name("FILE|NAME"),
      "of --preview: as data.chat_template")("sequence-length",
                                             po::value(&preview.sequence_length)->value_name("N"),
                                             "of --preview: records are cut and padded to it");
  return table;
}

void check_preview(TokenizeOptions& read) {
  PreviewSpec& p = read.preview;
  if (p.samples < 0 || p.sequence_length < 0)
    refuse("--preview and --sequence-length are numbers from 1 on", "");
  if (p.samples == 0 && (!read.learn.empty() || !p.chat_template.empty() || p.sequence_length > 0))
    refuse("--learn, --chat-template and --sequence-length are of --preview", "add --preview 3");
  if (p.samples > 0 && !read.file.path.empty())
    refuse("--preview writes no file, and --output names one", "leave one of them out");
  if (!read.learn.empty()) {
    const auto found = std::find(kSpellings<Learn>.begin(), kSpellings<Learn>.end(), read.learn);
    if (found == kSpellings<Learn>.end())
      refuse(fmt::format("unknown --learn {}", printable(read.learn)),
             "it is auto, assistant, completion or all");
    p.learn = static_cast<Learn>(found - kSpellings<Learn>.begin());
  }
  p.tokenizer = read.tokenizer;
  p.inputs = read.corpus.inputs;
  p.key = read.corpus.key;
}

TokenizeOptions read_options(const Words& words) {
  TokenizeOptions read;
  read.corpus.inputs = parse_options(words, read.options());
  if (read.tokenizer.empty()) throw UsageError("tokenize needs --tokenizer FILE or FOLDER");
  check_preview(read);
  if (read.file.path.empty() && read.preview.samples == 0) throw UsageError("tokenize needs --output FILE");
  if (read.corpus.inputs.empty()) throw UsageError("tokenize needs text: name files or folders");
  constexpr int kMaxThreads = 1024;
  if (read.corpus.threads < 1 || read.corpus.threads > kMaxThreads)
    refuse(fmt::format("--threads {}", read.corpus.threads), "it is 1 to 1024");
  if (!read.type.empty()) {
    read.file.type = token_type_of(read.type);
    if (!read.file.type) refuse(fmt::format("unknown --dtype {}", read.type), "it is uint16 or uint32");
  }
  return read;
}

// Whether a search of the folder, now or another time, finds the file.
bool is_found_in(const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  const fs::path path = fs::weakly_canonical(fs::absolute(file, error), error);
  if (std::find(kCorpusExtensions.begin(), kCorpusExtensions.end(), path.extension()) ==
      kCorpusExtensions.end())
    return false;
  const fs::path below = path.lexically_relative(fs::canonical(folder, error));
  return !below.empty() && *below.begin() != "..";
}

void check_output(const TokenizeOptions& options) {
  std::vector<std::string> read = find_files(options.corpus.inputs, kCorpusExtensions);
  for (const std::string& file : files_of_tokenizer(options.tokenizer)) read.push_back(file);
  for (const std::string& file : files_written(options.file)) {
    check_not_read("--output", file, read);
    for (const std::string& folder : options.corpus.inputs)
      if (is_found_in(folder, file))
        refuse(fmt::format("--output {} lies in {} and would be read as text the next time", file, folder),
               "write it elsewhere, or give it another extension: .bin");
  }
}

}  // namespace

OptionTable tokenize_options() { return TokenizeOptions().options(); }

void tokenize_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  TokenizeOptions options = read_options(words);
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  for (const std::string& remark : tokenizer->remarks()) warn("{}", remark);
  if (options.preview.samples > 0) return show_preview(*tokenizer, options.preview);
  check_output(options);
  options.corpus.end_of_document = end_of_document(*tokenizer, options.end);
  options.file.vocabulary_size = tokenizer->vocabulary_size();
  TokenWriter writer(options.file);
  const auto start = Clock::now();
  uint64_t bytes = 0;
  std::atomic<int64_t> blank = 0;
  options.corpus.blank_records = &blank;
  {
    ProgressLine line;
    bytes = tokenize_corpus(*tokenizer, options.corpus, writer,
                            [&](uint64_t done, uint64_t all) { line.show(done, all); });
  }
  writer.finish();
  const double seconds = seconds_since(start), megabytes = static_cast<double>(bytes) / 1e6;
  fmt::print("{}: {} tokens ({}, vocabulary of {}) in {} documents, from {} bytes in {}: {:.1f} MB/s\n",
             printable(writer.path()), writer.tokens(), name_of(writer.type()), options.file.vocabulary_size,
             writer.documents(), bytes, duration_text(seconds), megabytes / seconds);
  if (blank > 0)
    fmt::print("{} {} without text passed over\n", blank.load(), blank == 1 ? "record" : "records");
}

}  // namespace recollect
