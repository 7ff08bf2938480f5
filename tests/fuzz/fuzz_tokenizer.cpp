// Tokenizers: 'j' and a tokenizer.json; 'g', a vocab.json, a zero byte and a merges.txt; 'b', a vocab.txt, a
// zero byte and a tokenizer_config.json. What is accepted encodes some text to ids of its vocabulary.
#include "engine/data/tokenizer/tokenizer.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  if (text.empty()) return;
  const char kind = text.front();
  text.remove_prefix(1);
  const std::string_view first = kind == 'j' ? text : fuzz::take_until(text, '\0');
  const char* name = kind == 'j' ? "j/tokenizer.json" : kind == 'g' ? "g/vocab.json" : "b/vocab.txt";
  const std::string path = folder.write(name, first);
  if (kind == 'g') folder.write("g/merges.txt", text);
  if (kind != 'j' && kind != 'g') folder.write("b/tokenizer_config.json", text);
  fuzz::accepts([&] {
    const auto tokenizer = load_tokenizer(path);
    EncodingMemory memory;
    std::vector<uint32_t> ids;
    constexpr std::string_view kText =
        "The quick br\xc3\xb6wn fox's 1234 \xe6\xbc\xa2<|endoftext|>\r\n  \t[SEP]a\xcc\x81";
    tokenizer->encode(kText, memory, ids);
    std::vector<Token> tokens;
    tokenizer->encode(kText, memory, tokens);
    fuzz::expect(tokens.size() == ids.size(), "tokens that are not the ids");
    for (std::size_t i = 0; i < ids.size(); ++i)
      fuzz::expect(
          tokens[i].id == ids[i] && tokens[i].begin < tokens[i].end && tokens[i].end <= count_points(kText),
          "a token outside the text");
    tokenizer->decode(ids);
    const AssembleOptions options{
        .truncation = Truncation::kLongestFirst, .max_length = 16, .windows = true, .stride = 1};
    for (const auto& window : tokenizer->assemble(tokens, tokens, options))
      fuzz::expect(window.size() <= 16, "a window that is too long");
    for (const uint32_t id : ids)
      fuzz::expect(id < tokenizer->vocabulary_size(), "an id outside the vocabulary");
  });
}
