// What tests of communicators for devices ask, with streams that work behind their callers' backs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/comm/check_collectives.h"
#include "tests/comm/check_passing.h"
#include "tests/comm/device_streams.h"
#include "tests/comm/ranks.h"

namespace recollect::test {

// Every collective of every kind, on tensors of these numbers of elements.
inline void check_on_stream(Communicator& c, const std::vector<int64_t>& sizes) {
  WorkerStream stream(static_cast<uint32_t>(c.rank()));
  Synchronous synchronous(c, stream);
  std::string text;
  for (const std::string& failure : CollectiveChecker(synchronous).run(sizes)) text += failure + "\n";
  if (!text.empty()) throw Error(ExitCode::kIntegrity, text);
}

inline void check_passing_on_stream(Communicator& c, const std::vector<int64_t>& counts) {
  WorkerStream stream(static_cast<uint32_t>(c.rank()));
  Synchronous synchronous(c, stream);
  check_passing(synchronous, counts);
}

// As a program does: enqueue, wait for the stream, ask what became of it.
inline void sum_on_stream(Communicator& c, int64_t elements = 3) {
  std::vector<float> values(static_cast<std::size_t>(elements), 1.0f);
  WorkerStream stream(static_cast<uint32_t>(c.rank()));
  c.all_reduce({values.data(), {elements}, DType::kF32}, ReduceOp::kSum, &stream);
  stream.synchronize();
  c.check();
}

// These ranks ended with this code, and their message mentions each of these texts.
inline void expect_each(const std::vector<Outcome>& outcomes, const std::vector<int>& ranks, ExitCode code,
                        const std::vector<std::string>& mentions) {
  for (const int rank : ranks) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.code, code) << "rank " << rank << ": " << outcome.message;
    for (const std::string& text : mentions)
      EXPECT_NE(outcome.message.find(text), std::string::npos)
          << outcome.message << " does not say: " << text;
  }
}

}  // namespace recollect::test
