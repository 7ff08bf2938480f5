// What the configuration tests share: a minimal good text and the message of a refusal.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "launch/config/read.h"

namespace recollect {

// The least that is accepted; tests add sections to it.
inline const std::string kLeast = "data: {format: random}\n";

// The message of the configuration error that the text gives, or "accepted".
inline std::string refusal(std::string_view text, const std::vector<std::string>& overrides = {},
                           const BuildFeatures& features = {.cuda = false}) {
  try {
    read_config_text("c.yaml", text, overrides, features);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return error.what();
  }
  return "accepted";
}

inline Config accepted(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return read_config_text("c.yaml", text, overrides);
}

}  // namespace recollect
