// Runs the same function as every rank of a group, as threads or as forked processes. Neither can hang:
// processes are killed by a watchdog, and thread groups have short timeouts.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/local.h"

namespace recollect::test {

using RankFunction = std::function<void(Communicator&)>;

// What became of each rank: its exception's exit code and text, or kOk and "".
struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::string message;
};

// Every rank joins a LocalGroup in a thread of its own; communicators are destroyed as the ranks return or
// throw.
std::vector<Outcome> run_as_threads(int ranks, const RankFunction& function,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                    std::size_t chunk_bytes = kDefaultChunkBytes);

// Every rank is a forked process that joins with a run id of its own test. A process that is killed has the
// code 128 + its signal; one that outlives the watchdog is killed. gtest failures in a rank are kInternal.
std::vector<Outcome> run_as_processes(int ranks, const RankFunction& function,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                      std::size_t chunk_bytes = kDefaultChunkBytes);
// Both again, over TCP on the loopback interface; `chunk_bytes` means nothing there. Joining has a minute,
// whatever the timeout.
std::vector<Outcome> run_over_tcp_as_threads(int ranks, const RankFunction& function,
                                             std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                             std::size_t chunk_bytes = 0);
std::vector<Outcome> run_over_tcp_as_processes(int ranks, const RankFunction& function,
                                               std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                               std::size_t chunk_bytes = 0);

// As run_as_processes, without joining: the function gets the rank and the run id. Nothing of the run may be
// left in shared memory.
std::vector<Outcome> run_processes(int ranks,
                                   const std::function<void(int rank, const std::string& run_id)>& function);

// Whether the run's name is in the node's shared-memory directory.
bool is_in_shared_memory(const std::string& run_id);

// All ranks fine, each failure told.
void expect_fine(const std::vector<Outcome>& outcomes);

}  // namespace recollect::test
