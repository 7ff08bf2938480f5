// The user's terminal: whether lines may be redrawn, and how wide it is now.
#pragma once

#include <string_view>

namespace recollect {

// Control sequences of every terminal that is not "dumb" (ECMA-48). Erasing leaves the cursor where it is.
inline constexpr std::string_view kEraseToEndOfLine = "\x1b[K", kEraseToEndOfScreen = "\x1b[J";

// Set for a rank whose launcher forwards its lines to a terminal, after a prefix of this many characters.
inline constexpr const char* kBarBeside = "RECOLLECT_BAR_BESIDE";

// Returns true if the environment asks for plain lines, whatever the terminal can do: NO_COLOR or CI is set,
// or TERM is dumb or missing.
bool wants_plain_lines();

// Returns true for a terminal if the environment does not ask for plain lines.
bool may_draw_on(int descriptor);

// Returns the width at this moment; 80 if the terminal does not tell.
int columns_of(int descriptor);

}  // namespace recollect
