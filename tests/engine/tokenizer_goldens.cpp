#include "tests/engine/tokenizer_goldens.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "engine/data/tokenizer/unicode.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test {
namespace {

constexpr uint64_t kFnvStart = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
    {0x20, 0x7f},     {0x00, 0x80},     {0xa0, 0x250},      {0x300, 0x370},     {0x370, 0x530},
    {0x590, 0x700},   {0x900, 0x1000},  {0x1e00, 0x2100},   {0x3000, 0x3100},   {0x4e00, 0x9fff},
    {0xac00, 0xd7a4}, {0xf900, 0xfb00}, {0x1d100, 0x1d200}, {0x1f300, 0x1f700}, {0x0, 0x20000}};

// Beside those of the pairs: what the pieces of tokenizers of other kinds look like, and new editions of Unicode.
constexpr std::string_view kMoreParts[] = {"\u2581",
                                           " \u2581 ",
                                           "<0x0A>",
                                           "<unk>",
                                           "<s>",
                                           "</s>",
                                           "<|eot|>",
                                           " <|eot|>\n\n x",
                                           "<mask>",
                                           " <mask>  x",
                                           "wordy",
                                           "word",
                                           "xwordx",
                                           "  ",
                                           "   \n",
                                           "\n\n",
                                           "\t \r\n x",
                                           "1234567",
                                           "12,345.67",
                                           "'S'T'Re",
                                           "\u017f's'\u017f",
                                           "don't WE'LL I'VE",
                                           "\u2160\u00bc\u0664",
                                           "\u180e x",
                                           "\u2028a\302\205b",
                                           "\U00011f04\U00011f05",
                                           "\U0001e4d0",
                                           "\U000323af\U0002ebf0",
                                           "\ua7dc\ua7cb",
                                           "\U00010d4a\U00010d65",
                                           "\u0897",
                                           "\U0001ccd6",
                                           "\u1c89\u1c8a",
                                           "\u31ef",
                                           "\U0001fae9",
                                           "e\u0301\u0327",
                                           "\u1112\u1161\u11ab",
                                           "\ud55c\u11a8",
                                           "\ufb00\ufb03 st\ufb05",
                                           "\u33a1\u2460\uff21\uff76\uff9e",
                                           "``x''",
                                           "a  b   c",
                                           "camelCaseWORDSHere",
                                           "x_1-y/z",
                                           "\u4e2d\u6587\u3042\u30a2\u30fc",
                                           "\r\n",
                                           "a\u200db",
                                           "\U0001f469\u200d\U0001f4bb",
                                           "\u0915\u094d\u0937",
                                           "\u0600 1",
                                           "##",
                                           "</w>",
                                           "|",
                                           "||x|",
                                           "_",
                                           "\u01c5\u02b0\u0e01\u0301"};

constexpr std::string_view kSnippets[] = {" ",
                                          "\n",
                                          "\r\n",
                                          "\t",
                                          "\u00a0",
                                          "<|endoftext|>",
                                          "<|endoftext",
                                          "[SEP]",
                                          "[mask]",
                                          "'s",
                                          " 'LL",
                                          "don't",
                                          "''re",
                                          "if (x != 0) { return f(&x)[i++]; }\n",
                                          "def f(self, *args):\n    return {**args}\n",
                                          "\u302e\U0001d165",
                                          "e\u0301",
                                          "-"};

constexpr std::string_view kParts[] = {"e\u0301",
                                       "a\u0323\u0307",
                                       "\u1e69",
                                       "\u0344x",
                                       "\u0958",
                                       "\u1100\u1161\u11a8",
                                       "\uac01",
                                       "\U0001d15e\u0334",
                                       "\u302e\u0301",
                                       "\u302e\u0334",
                                       "x\U0001d165\u0345\u0334",
                                       "\u0f71\u0f72\u0f74",
                                       "\u0f73",
                                       "\u1b44\u0300",
                                       "\u0130",
                                       "\ufb01",
                                       "\u2126",
                                       "\U0001f468\u200d\U0001f469\u200d\U0001f467",
                                       "\U0001f1e9\U0001f1ea",
                                       "\u200b",
                                       "\u200e",
                                       "\u202e\u05d0\u05d1\u202c",
                                       "\ufeff",
                                       std::string_view("\000", 1),
                                       "\007",
                                       "\302\205",
                                       "\ud7ff",
                                       "\ue000",
                                       "\uffff",
                                       "\U00010000",
                                       "\U0010ffff",
                                       "\ufffd",
                                       "\u4e00\uf900",
                                       "\u3000",
                                       "##a",
                                       "\u0120"};

bool is_surrogate(uint32_t point) { return point >= 0xd800 && point < 0xe000; }

}  // namespace

std::string tokenizer_golden_folder() { return RECOLLECT_SOURCE_DIR "/tests/golden/tokenizer"; }

const nlohmann::json read_tokenizer_goldens() {
  return nlohmann::json::parse(TemporaryFolder::read(tokenizer_golden_folder() + "/cases.json"));
}

std::string fnv(std::string_view bytes) {
  uint64_t value = kFnvStart;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return fmt::format("{:016x}", value);
}

std::string fnv(const std::vector<uint32_t>& ids) {
  return fnv({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint32_t)});
}

std::string every_code_point() {
  std::string text;
  for (uint32_t point = 0; point < 0x110000; ++point) {
    if (is_surrogate(point)) continue;
    std::string c;
    append_utf8(point, c);
    for (const std::string_view part : {"a", "", "b ", "", "\u302e", "", "1\u0301", "", " ", "", "\n"})
      text += part.empty() ? std::string_view(c) : part;
  }
  return text;
}

std::string mixed_text(const std::string& novel) {
  std::vector<std::string_view> lines;
  for (std::string_view rest = novel;;) {
    const std::size_t newline = rest.find('\n');
    lines.push_back(rest.substr(0, newline));
    if (newline == std::string_view::npos) break;
    rest.remove_prefix(newline + 1);
  }
  Random random(2026);
  std::string out;
  for (int i = 0; i < 9000; ++i) {
    const uint64_t kind = random.below(4);
    if (kind == 0) {
      const std::size_t at = random.below(lines.size());
      for (std::size_t line = at; line < std::min(at + 8, lines.size()); ++line)
        out.append(line == at ? "" : "\n").append(lines[line]);
    } else if (kind == 1) {
      const auto [first, last] = kRanges[random.below(std::size(kRanges))];
      for (uint64_t left = random.below(60); left > 0; --left)
        if (const auto point = static_cast<uint32_t>(first + random.below(last - first));
            !is_surrogate(point))
          append_utf8(point, out);
    } else {
      const std::string_view snippet = kSnippets[random.below(std::size(kSnippets))];
      for (uint64_t left = kind == 2 ? 1 : random.below(40); left > 0; --left) out += snippet;
    }
  }
  return out;
}

namespace {

// Of the golden sentences, as long as `sentences` is there.
std::vector<std::string_view> golden_words(std::string& sentences) {
  const auto cases = read_tokenizer_goldens()["cases"];
  for (std::size_t i = 0; i < 4; ++i) sentences += (i == 0 ? "" : " ") + cases[i]["text"].get<std::string>();
  std::vector<std::string_view> words;
  for (std::string_view rest = sentences;; rest.remove_prefix(words.back().size() + 1)) {
    words.push_back(rest.substr(0, rest.find(' ')));
    if (words.back().size() == rest.size()) return words;
  }
}

void append_points(Random& random, std::string& text) {
  const auto [first, last] = kRanges[random.below(std::size(kRanges))];
  for (uint64_t left = random.below(6); left > 0; --left)
    if (const auto point = static_cast<uint32_t>(first + random.below(last - first)); !is_surrogate(point))
      append_utf8(point, text);
}

}  // namespace

std::vector<std::string> odd_texts(std::size_t count) {
  std::string sentences;
  const std::vector<std::string_view> words = golden_words(sentences);
  Random random(13);
  std::vector<std::string> texts(count);
  for (std::string& text : texts)
    for (uint64_t pieces = random.below(16); pieces > 0; --pieces) {
      const uint64_t kind = random.below(6);
      if (kind < 3)
        text.append(words[random.below(words.size())]) += ' ';
      else if (kind == 3)
        text += kParts[random.below(std::size(kParts))];
      else if (kind == 4)
        text += kSnippets[random.below(std::size(kSnippets))];
      else
        append_points(random, text);
    }
  return texts;
}

std::vector<std::string> odd_texts_of_kinds(std::size_t count) {
  std::string sentences;
  const std::vector<std::string_view> words = golden_words(sentences);
  std::vector<std::string_view> parts(std::begin(kParts), std::end(kParts));
  parts.insert(parts.end(), std::begin(kSnippets), std::end(kSnippets));
  parts.insert(parts.end(), std::begin(kMoreParts), std::end(kMoreParts));
  Random random(17);
  std::vector<std::string> texts(count);
  for (std::string& text : texts)
    for (uint64_t pieces = random.below(12); pieces > 0; --pieces) {
      const uint64_t kind = random.below(7);
      if (kind < 2)
        text.append(words[random.below(words.size())]) += ' ';
      else if (kind < 6)
        text += parts[random.below(parts.size())];
      else
        append_points(random, text);
    }
  return texts;
}

std::optional<std::string> test_data(const std::string& name) {
  const char* folder = std::getenv("RECOLLECT_TEST_DATA");
  const std::string path =
      (folder ? folder : std::string(RECOLLECT_SOURCE_DIR "/../shared/data")) + "/" + name;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

}  // namespace recollect::test
