#include "engine/data/squad.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "engine/core/error.h"
#include "engine/data/byte_stream.h"
#include "engine/data/text_file.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

// Where in the file the parser is: an object, or a list, of this kind.
enum class Level {
  kTop,
  kFile,
  kArticles,
  kArticle,
  kParagraphs,
  kParagraph,
  kQuestions,
  kQuestion,
  kAnswers,
  kAnswer
};

enum class Kind { kText, kNumber, kFlag, kList, kObject };
constexpr std::array<std::string_view, 5> kKinds = {"text", "whole number", "true or false", "list",
                                                    "object"};

// What is read: everything else is passed over.
struct Wanted {
  Level level;
  std::string_view key;  // "": an element of a list
  Kind kind;
  Level opens = Level::kTop;
  bool required = true;
};
constexpr std::array kWanted = {
    Wanted{Level::kTop, "", Kind::kObject, Level::kFile},
    Wanted{Level::kFile, "data", Kind::kList, Level::kArticles},
    Wanted{Level::kArticles, "", Kind::kObject, Level::kArticle},
    Wanted{Level::kArticle, "paragraphs", Kind::kList, Level::kParagraphs},
    Wanted{Level::kParagraphs, "", Kind::kObject, Level::kParagraph},
    Wanted{Level::kParagraph, "context", Kind::kText},
    Wanted{Level::kParagraph, "qas", Kind::kList, Level::kQuestions},
    Wanted{Level::kQuestions, "", Kind::kObject, Level::kQuestion},
    Wanted{Level::kQuestion, "id", Kind::kText},
    Wanted{Level::kQuestion, "question", Kind::kText},
    Wanted{Level::kQuestion, "is_impossible", Kind::kFlag, Level::kTop, false},
    Wanted{Level::kQuestion, "answers", Kind::kList, Level::kAnswers, false},
    Wanted{Level::kAnswers, "", Kind::kObject, Level::kAnswer},
    Wanted{Level::kAnswer, "text", Kind::kText},
    Wanted{Level::kAnswer, "answer_start", Kind::kNumber},
};

// The byte of a text at which its code point of that number begins, or npos.
std::size_t byte_of_point(std::string_view text, uint64_t point) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80 && point-- == 0) return at;
  return point == 0 ? at : std::string_view::npos;
}

class SquadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SquadReader(const std::string& path, bool labelled, QuestionAnsweringSet& set, BadRecords& bad)
      : path_(path), labelled_(labelled), set_(set), bad_(bad), stream_(path), open_{{Level::kTop}} {}

  void read() { nlohmann::json::sax_parse(ByteStream::Iterator(stream_), ByteStream::Iterator(), this); }

  bool null() override { return passes_over({}); }
  bool boolean(bool value) override {
    if (!passes_over(Kind::kFlag)) question_.is_impossible = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (!passes_over(Kind::kNumber)) fail(fmt::format("answer_start is {}", value));
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (passes_over(Kind::kNumber)) return true;
    if (value > UINT32_MAX) fail(fmt::format("answer_start is {}", value));
    answer_.begin = static_cast<uint32_t>(value);
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return passes_over({}); }
  bool binary(binary_t&) override { return passes_over({}); }
  bool string(string_t& value) override {
    if (passes_over(Kind::kText)) return true;
    const Level level = open_.back().level;
    std::string& into = level == Level::kParagraph ? context_
                        : level == Level::kAnswer  ? answer_.text
                        : key_ == "id"             ? question_.id
                                                   : question_.question;
    into = std::move(value);
    return true;
  }
  bool key(string_t& value) override {
    if (passed_over_ == 0) key_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool start_array(std::size_t) override { return open(Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string problem = json_problem(error);
    fail_at_line(path_, stream_.line(),
                 fmt::format("{} at byte {}",
                             problem == "not valid JSON" ? problem + ", or not UTF-8," : problem, position));
  }

 private:
  struct Open {
    Level level;
    uint32_t seen = 0;  // of kWanted, by their places
  };

  // Whether the value that comes is one that nobody asks for. An error where it is of another kind than what is asked
  // for, or there twice.
  bool passes_over(std::optional<Kind> kind) {
    if (passed_over_ > 0) return true;
    wanted_ = std::find_if(kWanted.begin(), kWanted.end(), [this](const Wanted& one) {
      return one.level == open_.back().level && (one.key.empty() || one.key == key_);
    });
    if (wanted_ == kWanted.end()) return true;
    const std::string name = wanted_->level == Level::kTop ? "the whole"
                             : wanted_->key.empty()        ? "an element of a list"
                                                           : escaped_name(wanted_->key);
    if (kind != wanted_->kind)
      fail(fmt::format("{} is no {}", name, kKinds[static_cast<std::size_t>(wanted_->kind)]));
    const uint32_t bit = 1u << (wanted_ - kWanted.begin());
    if (!wanted_->key.empty() && (open_.back().seen & bit)) fail(fmt::format("{} is there twice", name));
    open_.back().seen |= bit;
    return false;
  }

  bool open(Kind kind) {
    if (passes_over(kind)) {
      ++passed_over_;
      return true;
    }
    open_.push_back({wanted_->opens});
    switch (wanted_->opens) {
      case Level::kArticle:
        ++article_;
        paragraph_ = 0;
        break;
      case Level::kParagraph:
        ++paragraph_;
        number_ = 0;
        first_ = set_.examples.size();
        break;
      case Level::kQuestion:
        ++number_;
        question_ = {.context = set_.contexts.size(), .line = stream_.line()};
        in_question_ = true;
        break;
      case Level::kAnswer:
        answer_ = {};
        break;
      default:
        break;
    }
    return true;
  }

  bool close() {
    if (passed_over_ > 0) {
      --passed_over_;
      return true;
    }
    const Open closed = open_.back();
    for (std::size_t i = 0; i < kWanted.size(); ++i)
      if (kWanted[i].level == closed.level && !kWanted[i].key.empty() && kWanted[i].required &&
          !(closed.seen >> i & 1))
        fail(fmt::format("there is no {}", escaped_name(kWanted[i].key)));
    if (closed.level == Level::kAnswer) question_.answers.push_back(std::move(answer_));
    if (closed.level == Level::kQuestion) end_question();
    if (closed.level == Level::kParagraph) end_paragraph();
    open_.pop_back();
    return true;
  }

  void end_question() {
    try {
      if (question_.is_impossible && !question_.answers.empty())
        fail("is_impossible is true, and there are answers");
      if (labelled_ && !question_.is_impossible && question_.answers.empty())
        fail("there is no answer", "where there is none, is_impossible must be true");
      set_.examples.push_back(std::move(question_));
    } catch (const Error& error) {
      if (!bad_.passes_over(error)) throw;
    }
    question_ = {};
    in_question_ = false;
  }

  // Its context may stand behind its questions.
  void end_paragraph() {
    std::size_t good = first_;
    for (std::size_t i = first_; i < set_.examples.size(); ++i) try {
        for (const QuestionAnsweringSet::Answer& answer : set_.examples[i].answers)
          check(set_.examples[i], i - first_ + 1, answer);
        if (good != i) set_.examples[good] = std::move(set_.examples[i]);
        ++good;
      } catch (const Error& error) {
        if (!bad_.passes_over(error)) throw;
      }
    set_.examples.resize(good);
    set_.contexts.push_back(std::move(context_));
    context_.clear();
  }

  void check(const QuestionAnsweringSet::Example& example, std::size_t number,
             const QuestionAnsweringSet::Answer& answer) const {
    const std::string who = place(number, example.id);
    if (answer.text.empty()) fail_at_line(path_, example.line, who + ": an answer without text");
    const std::size_t begin = byte_of_point(context_, answer.begin);
    const std::string_view there =
        begin == std::string::npos ? "" : std::string_view(context_).substr(begin, answer.text.size());
    if (there != answer.text)
      fail_at_line(path_, example.line,
                   fmt::format("{}: the answer {} does not stand at {}, where the context has {}", who,
                               escaped_name(answer.text), answer.begin,
                               begin == std::string::npos ? "ended" : escaped_name(there)),
                   "answer_start counts code points of the context, from 0");
  }

  std::string place(std::size_t number, const std::string& id) const {
    return fmt::format("article {}, paragraph {}, question {}", article_, paragraph_,
                       id.empty() ? fmt::to_string(number) : escaped_name(id));
  }
  [[noreturn]] void fail(const std::string& what, std::string hint = {}) const {
    std::string where;
    if (in_question_)
      where = place(number_, question_.id) + ": ";
    else if (paragraph_ > 0)
      where = fmt::format("article {}, paragraph {}: ", article_, paragraph_);
    else if (article_ > 0)
      where = fmt::format("article {}: ", article_);
    fail_at_line(path_, stream_.line(), where + what, std::move(hint));
  }

  const std::string& path_;
  bool labelled_;
  QuestionAnsweringSet& set_;
  BadRecords& bad_;
  ByteStream stream_;
  std::vector<Open> open_;
  int64_t passed_over_ = 0;  // objects and lists that are open and that nobody asks for
  std::string key_;          // the last one that counts
  const Wanted* wanted_ = nullptr;
  std::size_t article_ = 0, paragraph_ = 0, number_ = 0;
  std::size_t first_ = 0;  // question of the paragraph
  bool in_question_ = false;
  std::string context_;
  QuestionAnsweringSet::Example question_;
  QuestionAnsweringSet::Answer answer_;
};

}  // namespace

void read_squad(const std::string& path, bool labelled, QuestionAnsweringSet& set, BadRecords& bad) {
  const std::size_t before = set.examples.size();
  SquadReader(path, labelled, set, bad).read();
  if (set.examples.size() == before && bad.count() > 0) bad.fail_for_all(path);
  if (set.examples.size() == before) throw Error(ExitCode::kInput, path + ": there is not a single question");
}

void check_ids(const std::string& path, const QuestionAnsweringSet& set) {
  const auto id = [&](std::size_t i) -> const std::string& { return set.examples[i].id; };
  std::vector<std::size_t> order(set.examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::tie(id(a), a) < std::tie(id(b), b); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (id(order[i]) == id(order[i - 1]))
      fail_at_line(path, set.examples[order[i]].line,
                   fmt::format("an earlier question has the id {} too", escaped_name(id(order[i]))));
}

}  // namespace recollect
