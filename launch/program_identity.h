// What decides about the bits of a result beside configuration and data: the code of this program and of the
// libraries that compute for it, and the instructions that they choose on this processor.
#pragma once

#include <map>
#include <string>

namespace recollect {

// By name; the same texts mean the same code.
std::map<std::string, std::string> program_identity();

}  // namespace recollect
