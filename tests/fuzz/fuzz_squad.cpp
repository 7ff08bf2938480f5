// A file of SQuAD's questions, with labels and without: of what is accepted every answer stands in its context at the code
// point that it says, and what has labels is the same without.
#include "engine/data/squad.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

// Where a text's code point of that number begins, found another way than the parser does.
std::size_t byte_of(std::string_view text, uint32_t point) {
  std::size_t at = 0;
  for (; point > 0 && at < text.size(); --point) {
    const auto first = static_cast<unsigned char>(text[at]);
    at += first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  }
  fuzz::expect(point == 0 && at <= text.size(), "an answer behind its context");
  return at;
}

void check(const QuestionAnsweringSet& set) {
  fuzz::expect(!set.examples.empty(), "a file without questions");
  for (const QuestionAnsweringSet::Example& example : set.examples) {
    fuzz::expect(example.context < set.contexts.size(), "a question without a context");
    fuzz::expect(!example.is_impossible || example.answers.empty(), "an answer to what has none");
    const std::string_view context = set.context_of(example);
    for (const QuestionAnsweringSet::Answer& answer : example.answers)
      fuzz::expect(
          !answer.text.empty() && context.substr(byte_of(context, answer.begin)).starts_with(answer.text),
          "an answer that is not where it is said to be");
  }
}

}  // namespace

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("squad.json", text);
  QuestionAnsweringSet labelled, plain;
  BadRecords bad;
  const bool has_labels = fuzz::accepts([&] { read_squad(path, true, labelled, bad); });
  const bool accepted = fuzz::accepts([&] { read_squad(path, false, plain, bad); });
  fuzz::expect(accepted || !has_labels, "questions that are accepted with labels only");
  if (!accepted) return;
  check(plain);
  fuzz::accepts([&] { check_ids(path, plain); });
  if (!has_labels) return;
  check(labelled);
  fuzz::expect(labelled.examples.size() == plain.examples.size() && labelled.contexts == plain.contexts,
               "labels that change the questions");
}
