// Every checkpointing mode, so that a new one is in every test that means all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpointing/settings.h"

namespace recollect::test {

inline constexpr auto& kModes = kNamedModes;

// A mode as the section activation_checkpointing says it, with the key that it needs.
inline std::vector<std::string> mode_keys(std::string_view mode) {
  std::vector<std::string> keys{"mode=" + std::string(mode)};
  if (mode == "every_k") keys.push_back("k=2");
  return keys;
}

// The same as a command line says it.
inline std::vector<std::string> mode_words(std::string_view mode) {
  std::vector<std::string> words = mode_keys(mode);
  for (std::string& word : words) word.insert(0, "activation_checkpointing.");
  return words;
}

}  // namespace recollect::test
