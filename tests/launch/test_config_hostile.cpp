// Texts made to hurt: each must be refused (or read) quickly and without undefined behaviour; sanitizer
// builds run the same tests.
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>

#include "engine/io/yaml_document.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_hostile_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 10;
#else
constexpr double kSlowdown = 1;
#endif

// Processor milliseconds of one refusal, so that a busy machine does not count.
double milliseconds(const std::string& text, std::string& message) {
  const std::clock_t start = std::clock();
  message = refusal(text);
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string repeat(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(HostileConfig, ABombOfAliasesIsRefusedAtOnce) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    const std::string previous = std::string("*") + static_cast<char>(c - 1);
    bomb += std::string(1, c) + ": &" + c + " [" + repeat(previous + ", ", 8) + previous + "]\n";
  }
  std::string message;
  EXPECT_LT(milliseconds(bomb, message), 50 * kSlowdown);
  EXPECT_NE(message.find("c.yaml:1:4: anchors"), std::string::npos) << message;
  EXPECT_NE(message.find("c.yaml:2:8: aliases"), std::string::npos) << message;
}

TEST(HostileConfig, ACyclicAliasIsRefused) {
  EXPECT_EQ(refusal("data: {format: random}\nzzz: &a [*a]\n"),
            "c.yaml:2:1: unknown key 'zzz'\n"
            "c.yaml:2:6: anchors (&name) are not supported; write the value again\n"
            "c.yaml:2:10: aliases (*name) are not supported; write the value again");
}

TEST(HostileConfig, DepthIsBounded) {
  const std::string deep = "a: " + repeat("[", 31) + repeat("]", 31);
  EXPECT_EQ(refusal(deep).find("nested"), std::string::npos);
  const std::string message = refusal("a: " + repeat("[", 32) + repeat("]", 32));
  EXPECT_EQ(message, "c.yaml:1:35: nested more than 32 deep");
}

TEST(HostileConfig, SizeIsBounded) {
  EXPECT_EQ(refusal(std::string((1 << 20) + 1, '#')), "c.yaml: larger than 1048576 bytes");
}

class Large : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Large, TakesTimeInProportion) {
  const std::string part = GetParam().second;
  const int times = (1 << 20) / static_cast<int>(part.size()) - 8;
  std::string message;
  EXPECT_LT(milliseconds("a: " + repeat(part, times), message), 4000 * kSlowdown);
  EXPECT_NE(message, "accepted");
  EXPECT_LT(message.size(), 100000u);
}

INSTANTIATE_TEST_SUITE_P(Texts, Large,
                         testing::Values(std::pair{"brackets", "["}, std::pair{"braces", "{"},
                                         std::pair{"entries", "\nb: 1"}, std::pair{"dashes", "\n- "},
                                         std::pair{"mappings", "{a: "}, std::pair{"questions", "? "},
                                         std::pair{"quotes", "\"\\x41"}, std::pair{"anchors", "&a "},
                                         std::pair{"documents", "\n---\n"}, std::pair{"spaces", " "},
                                         std::pair{"colons", ":"}, std::pair{"items", "[a,b],"}),
                         [](const auto& test) { return test.param.first; });

// Every occasion is compared with all others and looked for after every step.
TEST(HostileConfig, OccasionsToReportAreBounded) {
  std::string at;
  for (int step = 1; step <= 90000; ++step) at += "step:" + std::to_string(step) + ",";
  std::string message;
  EXPECT_LT(
      milliseconds(kLeast + "training: {max_steps: 90000}\nmemory_report: {at: [" + at + "]}\n", message),
      2000 * kSlowdown);
  EXPECT_EQ(message, "c.yaml:3:21: memory_report.at names 90000 occasions; it may name 1000");
}

// A good file with a few bytes changed, removed, repeated or swapped for YAML's own signs.
TEST(HostileConfig, MutationsNeverCrash) {
  std::ifstream file(std::string(RECOLLECT_SOURCE_DIR) + "/configs/gpt2-tiny.yaml");
  std::stringstream all;
  all << file.rdbuf();
  const std::string good = all.str();
  ASSERT_FALSE(good.empty());
  const std::string signs = "{}[]:,-?&*!|>'\"%@`#~\n\t \\.0x\xc3\xa9\xff";
  std::mt19937_64 random(20);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (uint64_t edits = 1 + random() % 6; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text[at] = signs[random() % signs.size()];
          break;
        case 2:
          text.insert(at, 1, signs[random() % signs.size()]);
          break;
        case 3:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
      }
    }
    const std::string message = refusal(text);
    refused += message != "accepted";
    EXPECT_FALSE(message.empty());
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

TEST(HostileConfig, RandomSignsNeverCrash) {
  const std::string signs = "{}[]:,-?&*!|>'\"%#~\n\n  ab1<\t";
  std::mt19937_64 random(21);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (uint64_t i = random() % 60; i > 0; --i) text += signs[random() % signs.size()];
    EXPECT_NE(refusal(text), "accepted") << text;
  }
}

TEST(HostileConfig, WhatIsText) {
  EXPECT_EQ(find_invalid_text("a\tb\r\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), std::string::npos);
  for (const char* bad : {"\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5",
                          "\x80", "\x7f", "\x1b[0m"}) {
    EXPECT_EQ(find_invalid_text(bad), 0u) << bad;
  }
  EXPECT_EQ(find_invalid_text(std::string_view("a\0b", 3)), 1u);
}

}  // namespace
}  // namespace recollect::test::config_hostile_test
