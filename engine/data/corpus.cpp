#include "engine/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/data/find_files.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

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
    return fail(error.id == kOutOfRange ? "a number is out of range" : "not valid JSON in UTF-8");
  }

 private:
  static constexpr int kOutOfRange = 406;  // nlohmann-json's number for it

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
    : tokenizer_(tokenizer), files_(find_files(inputs, {".txt", ".jsonl"})) {
  for (const std::string& file : files_) bytes_ += MappedFile(file).size();
}

bool Corpus::next(Chunk& chunk) {
  if (!last_.file || last_.ends_file()) {
    if (next_file_ == files_.size()) return false;
    const std::string& path = files_[next_file_++];
    last_ = {std::make_shared<MappedFile>(path), 0, 0, path.ends_with(".jsonl")};
  }
  const std::string_view text = last_.file->text();
  last_.begin = last_.end;
  const std::size_t from = std::min(last_.begin + kChunkBytes, text.size());
  if (last_.is_jsonl) {
    const std::size_t newline = text.find('\n', from);
    last_.end = newline == std::string_view::npos ? text.size() : newline + 1;
  } else {
    last_.end = last_.begin + tokenizer_.safe_cut(text.substr(last_.begin), from - last_.begin);
  }
  chunk = last_;
  return true;
}

std::string text_of_json(std::string_view line, const std::string& key, const std::string& path,
                         std::size_t offset) {
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw Error(ExitCode::kInput, fmt::format("{}: byte {}: {}", path, offset + at, what));
  };
  // The parser takes a zero byte for the end.
  if (const std::size_t zero = line.find('\0'); zero != std::string_view::npos)
    fail(zero, "a zero byte is not JSON");
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) fail(0, "an empty line");
  TextFinder finder(key);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &finder))
    fail(finder.position == 0 ? 0 : finder.position - 1, finder.problem);
  if (!finder.found) fail(0, fmt::format("the object has no {}", escaped_name(key)));
  return std::move(finder.text);
}

}  // namespace recollect
