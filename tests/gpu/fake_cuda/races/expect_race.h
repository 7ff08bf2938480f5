// That ThreadSanitizer reports a race and ends the program with the status that it has for that. In a process of its own,
// started anew: one that was forked from threads is not watched.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#define EXPECT_RACE(statement)                            \
  do {                                                    \
    testing::FLAGS_gtest_death_test_style = "threadsafe"; \
    EXPECT_EXIT(                                          \
        {                                                 \
          statement;                                      \
          std::exit(0);                                   \
        },                                                \
        testing::ExitedWithCode(66), "data race");        \
  } while (false)
