// What every target promises of its parser: any bytes are accepted, or refused with an Error that blames
// whoever wrote them. Everything else (a crash, another exception, an Error that blames us, endless work) is
// a find.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace recollect::fuzz {

[[noreturn]] inline void find(const std::string& what) {
  std::fprintf(stderr, "a find: %s\n", what.c_str());
  std::abort();
}

inline void expect(bool holds, const char* what) {
  if (!holds) find(what);
}

// Whether the bytes were accepted.
template <typename Parse>
bool accepts(const Parse& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) find(error.what());
    return false;
  }
}

// Takes the text before the first `end` from the front of `text`, or all of it.
inline std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

}  // namespace recollect::fuzz

// The body of a target: `text` is what the fuzzer has made up.
#define RECOLLECT_FUZZ(text)                                                           \
  static void fuzz_one(std::string_view text);                                         \
  extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) { \
    fuzz_one({reinterpret_cast<const char*>(data), size});                             \
    return 0;                                                                          \
  }                                                                                    \
  static void fuzz_one(std::string_view text)
