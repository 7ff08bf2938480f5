// Text of others reaches the terminal without power over it.
#include "engine/core/printable.h"

#include <gtest/gtest.h>

#include <random>

namespace recollect {
namespace {

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("layer0/mlp é 漢 🙂"), "layer0/mlp é 漢 🙂");
  EXPECT_EQ(printable("a\x1b[2J\nrecollect: b\r\t\x7f"), "a\\x1b[2J\\x0arecollect: b\\x0d\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // C1: a CSI of one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt.exe"),
            "\\u202etxt.exe");                                             // right to left from here
  EXPECT_EQ(printable("\xe2\x80\xa8x\xe2\x81\xa6y"), "\\u2028x\\u2066y");  // a line's end; an isolate
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable_lines("a\n\tb\rc\x1b"), "a\n\tb\\x0dc\\x1b");
}

TEST(Printable, EscapesBytesThatAreNoText) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");             // overlong
  EXPECT_EQ(printable("\xed\xa0\x80z"), "\\xed\\xa0\\x80z");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // cut off
}

TEST(Printable, LeavesOnlyTextOfAnyBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string shown = printable(bytes);
    for (std::size_t at = 0; at < shown.size(); at += utf8_length(std::string_view(shown).substr(at))) {
      ASSERT_GT(utf8_length(std::string_view(shown).substr(at)), 0u);
      ASSERT_GE(static_cast<unsigned char>(shown[at]), 0x20);
    }
    EXPECT_EQ(printable(shown), shown);
  }
}

TEST(Printable, ListsStayShort) {
  EXPECT_EQ(list_some({}), "");
  EXPECT_EQ(list_some({"a", "b\n"}), "a, b\\x0a");
  EXPECT_EQ(list_some({"a", "b", "c"}, 2), "a, b and 1 more");
}

}  // namespace
}  // namespace recollect
