// What every communicator has to get right, whatever carries its messages: to be called by all ranks of a
// group. A rank that finds something wrong throws kIntegrity.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "tests/comm/check_collectives.h"
#include "tests/comm/ranks.h"

namespace recollect::test {

inline const std::vector<int64_t> kSizes{0, 1, 2, 7, 61, 1021, 4096, 10007};

inline void check(Communicator& communicator, const std::vector<int64_t>& sizes) {
  std::string text;
  for (const std::string& failure : CollectiveChecker(communicator).run(sizes)) text += failure + "\n";
  if (!text.empty()) throw Error(ExitCode::kIntegrity, text);
}

// A mesh of 2 x 2 or 3 x 2 or a single row, and groups of those groups.
inline void split_and_check(Communicator& c) {
  const auto rows = c.split(c.rank() / 2);
  const auto columns = c.split(c.rank() % 2);
  const int in_row = c.rank() / 2 * 2 + 1 < c.size() ? 2 : 1;
  EXPECT_EQ(rows->size(), in_row);
  EXPECT_EQ(rows->rank(), c.rank() % 2);
  EXPECT_EQ(columns->size(), (c.size() + 1 - c.rank() % 2) / 2);
  EXPECT_EQ(columns->rank(), c.rank() / 2);
  check(*rows, {1, 1021});
  check(*columns, {1, 1021});
  const auto again = columns->split(columns->rank() == 0 ? -5 : 5);
  EXPECT_EQ(again->size(), columns->rank() == 0 ? 1 : columns->size() - 1);
  check(*again, {1, 1021});
  check(c, {61});
}

// As the executor does: one communicator for the compute stream, one for the communication stream.
inline void use_from_two_threads(Communicator& c) {
  const auto other = c.split(0);
  Outcome outcome;
  std::jthread stream([&] {
    try {
      check(*other, {7, 5003, 1021});
    } catch (const Error& error) {
      outcome = {error.code(), error.what()};
    }
  });
  check(c, {5003, 7, 1021, 61});
  stream.join();
  if (outcome.code != ExitCode::kOk) throw Error(outcome.code, outcome.message);
}

}  // namespace recollect::test
