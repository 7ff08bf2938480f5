// What a terminal may show of text that others wrote (names in files, file names, words of other ranks): no
// byte of it moves the cursor, changes colours, turns the reading direction or begins a line of its own, and
// a long list of it stays short.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// Bytes of the UTF-8 character that `text` begins with; 0 where it begins with none (overlong forms,
// surrogates, cut off).
std::size_t utf8_length(std::string_view text);

// One line: control characters and marks of direction as \x1b or \u202e, and so the bytes that are not UTF-8.
std::string printable(std::string_view text);
// The same for text of our own making that may hold such names: ends of lines and tabs stay.
std::string printable_lines(std::string_view text);

// "a, b, c and 7 more", each name printable.
std::string list_some(const std::vector<std::string>& names, std::size_t most = 10);

}  // namespace recollect
