#include "engine/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/data/find_files.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kLookAhead = 4 << 10;  // most chunks find their end in it

// Hears the parser and keeps the one string.
class TextFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextFinder(const std::string& key) : key_(key) {}

  std::string text, problem;
  std::size_t position = 0;  // of the problem, from 1
  bool found = false;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (depth_ == 0) return other("a string");
    if (!wanted_) return true;
    text = std::move(value);
    wanted_ = false;
    return found = true;
  }
  bool start_object(std::size_t) override { return other("an object") && ++depth_; }
  bool start_array(std::size_t) override {
    return depth_ == 0 ? fail("a list, not an object") : other("a list") && ++depth_;
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    wanted_ = depth_ == 1 && name == key_;
    return wanted_ && found ? fail(fmt::format("the key {} appears twice", escaped_name(key_))) : true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& error) override {
    position = at;
    const std::string problem = json_problem(error);
    return fail(problem == "not valid JSON" ? problem + " in UTF-8" : problem);
  }

 private:
  bool other(const char* what) {
    if (wanted_) return fail(fmt::format("{} is {}, not a string", escaped_name(key_), what));
    return depth_ > 0 || std::string_view(what) == "an object" ? true
                                                               : fail(fmt::format("{}, not an object", what));
  }
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  const std::string& key_;
  int depth_ = 0;
  bool wanted_ = false;  // what comes next is the value of the key
};

}  // namespace

Corpus::Corpus(const std::vector<std::string>& inputs, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), files_(find_files(inputs, kCorpusExtensions)) {
  for (const std::string& file : files_) bytes_ += InputFile(file).size();
}

bool Corpus::next(Chunk& chunk) {
  if (!file_ || at_ == file_->size()) {
    if (next_file_ == files_.size()) return false;
    file_ = std::make_shared<InputFile>(files_[next_file_++]);
    at_ = 0;
  }
  chunk.file = file_;
  chunk.begin = at_;
  chunk.is_jsonl = file_->path().ends_with(".jsonl");
  read(chunk);
  at_ = chunk.end();
  return true;
}

// Up to a place where it may end, which is looked for in more and more of the file.
void Corpus::read(Chunk& chunk) const {
  const uint64_t left = file_->size() - at_;
  std::string& text = chunk.text;
  text.clear();
  for (uint64_t most = kChunkBytes + kLookAhead;; most *= 2) {
    const std::size_t before = text.size();
    text.resize(std::min(most, left));
    file_->read_at(at_ + before, std::as_writable_bytes(std::span(text)).subspan(before));
    const std::size_t from = std::min(kChunkBytes, text.size());
    std::size_t end = 0;
    if (chunk.is_jsonl)
      end = std::min(text.find('\n', from), text.size() - 1) + 1;
    else
      end = tokenizer_.safe_cut(text, from);
    if (end == text.size() && end < left) continue;
    return text.resize(end);
  }
}

std::string text_of_json(std::string_view line, const std::string& key, const std::string& path,
                         std::size_t offset) {
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw Error(ExitCode::kInput, fmt::format("{}: byte {}: {}", path, offset + at, what));
  };
  // The parser takes a zero byte for the end.
  if (const std::size_t zero = line.find('\0'); zero != std::string_view::npos)
    fail(zero, "a zero byte is not JSON");
  TextFinder finder(key);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &finder))
    fail(finder.position == 0 ? 0 : finder.position - 1, finder.problem);
  if (!finder.found)
    fail(0, fmt::format("the object has no {}; --key names the one that holds the text", escaped_name(key)));
  return std::move(finder.text);
}

}  // namespace recollect
