// Makes text that others wrote (names in files, file names, messages of other ranks) safe for a terminal: no
// byte of it moves the cursor, changes colours, turns the reading direction or begins a new line, and a long
// list is shortened.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// Returns the bytes of the UTF-8 character that `text` begins with; 0 if it is not valid (overlong forms,
// surrogates, cut off).
std::size_t utf8_length(std::string_view text);

// Returns one line: control characters, direction marks and bytes that are not UTF-8 become \x1b or \u202e.
std::string printable(std::string_view text);
// The same for our own text that may contain such names: ends of lines and tabs stay.
std::string printable_lines(std::string_view text);

// "a, b, c and 7 more", each name printable.
std::string list_some(const std::vector<std::string>& names, std::size_t most = 10);

}  // namespace recollect
