// Expects a recollect::Error with a given exit code whose text names what the user needs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace recollect::test {

template <typename Action>
void expect_error(ExitCode code, const std::vector<std::string>& mentioned, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    const std::string text = error.what() + std::string(" | ") + error.hint();
    for (const std::string& part : mentioned)
      EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is missing from: " << text;
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace recollect::test
