// The terminal that somebody reads on: whether lines may be drawn over there, and how wide it is now.
#pragma once

#include <string_view>

namespace recollect {

// Control sequences of every terminal that is not "dumb" (ECMA-48). Erasing leaves the cursor where it is.
inline constexpr std::string_view kEraseToEndOfLine = "\x1b[K", kEraseToEndOfScreen = "\x1b[J";

// Of a rank whose launcher passes its lines on to a terminal, behind so many characters of its own.
inline constexpr const char* kBarBeside = "RECOLLECT_BAR_BESIDE";

// Whether the environment asks for plain lines whatever the terminal can do: NO_COLOR or CI is set, or TERM is dumb or
// missing.
bool wants_plain_lines();

// A terminal, of which the environment does not ask for plain lines.
bool may_draw_on(int descriptor);

// As wide as it is at this moment; 80 where it does not say.
int columns_of(int descriptor);

}  // namespace recollect
