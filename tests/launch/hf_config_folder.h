// A config.json of a test's own, in a folder that is removed at its end.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "launch/config/hf_config.h"

namespace recollect::test {

class HFConfigFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("recollect_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "config.json").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(path_) << text; }

  std::string said(const std::string& text) const {
    write(text);
    try {
      read_hf_config(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfiguration);
      std::string message = error.what();
      for (std::size_t at; (at = message.find(path_)) != std::string::npos;)
        message.replace(at, path_.size(), "J");
      return message;
    }
    return "accepted";
  }

  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace recollect::test
