#include "tests/comm/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "comm/local/rendezvous.h"
#include "comm/tcp.h"
#include "engine/io/node.h"

namespace recollect::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchdog = 120s;

Outcome outcome_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return {ExitCode::kInternal, error.what()};
  }
  return {};
}

struct Child {
  pid_t pid = 0;
  int messages = -1;  // the reading end of a pipe
};

Child start_child(const std::function<void()>& function) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid > 0) {
    ::close(ends[1]);
    return {pid, ends[0]};
  }
  ::close(ends[0]);
  Outcome outcome = outcome_of(function);
  if (outcome.code == ExitCode::kOk && ::testing::Test::HasFailure())
    outcome = {ExitCode::kInternal, "an expectation failed in this rank"};
  if (::write(ends[1], outcome.message.data(), outcome.message.size()) < 0)
    outcome.code = ExitCode::kInternal;
  std::fflush(nullptr);
  ::_exit(static_cast<int>(outcome.code));
}

Outcome collect(const Child& child, std::chrono::steady_clock::time_point deadline) {
  int status = 0;
  bool hung = false;
  while (::waitpid(child.pid, &status, WNOHANG) == 0) {
    if (!hung && std::chrono::steady_clock::now() >= deadline) {
      hung = true;
      ::kill(child.pid, SIGKILL);
    }
    std::this_thread::sleep_for(2ms);
  }
  std::string message(4096, '\0');
  const ssize_t length = ::read(child.messages, message.data(), message.size());
  ::close(child.messages);
  message.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  if (hung) return {ExitCode::kInternal, "hung, and was killed by the watchdog"};
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {static_cast<ExitCode>(code), message};
}

std::vector<Outcome> run_threads(int ranks, const std::function<void(int rank)>& function) {
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { outcomes[rank] = outcome_of([&] { function(rank); }); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace

std::vector<Outcome> run_as_threads(int ranks, const RankFunction& function,
                                    std::chrono::milliseconds timeout, std::size_t chunk_bytes) {
  LocalGroup group(ranks, timeout, chunk_bytes);
  return run_threads(ranks, [&](int rank) { function(*group.join(rank)); });
}

namespace {

std::unique_ptr<Communicator> join_over_tcp(const std::string& run_id, int rank, int size, uint16_t port,
                                            std::chrono::milliseconds timeout) {
  StoreEnvironment store{.place = {"127.0.0.1", {port}}, .token = "open sesame"};
  return join_tcp_world({.run_id = run_id,
                         .rank = rank,
                         .size = size,
                         .store = store,
                         .join_timeout = std::chrono::seconds(60),
                         .timeout = timeout});
}

}  // namespace

std::vector<Outcome> run_over_tcp_as_threads(int ranks, const RankFunction& function,
                                             std::chrono::milliseconds timeout, std::size_t) {
  const uint16_t port = free_port();
  return run_threads(ranks,
                     [&](int rank) { function(*join_over_tcp("threads", rank, ranks, port, timeout)); });
}

std::vector<Outcome> run_over_tcp_as_processes(int ranks, const RankFunction& function,
                                               std::chrono::milliseconds timeout, std::size_t) {
  const uint16_t port = free_port();
  return run_processes(ranks, [&](int rank, const std::string& run_id) {
    function(*join_over_tcp(run_id, rank, ranks, port, timeout));
  });
}

std::vector<Outcome> run_processes(int ranks,
                                   const std::function<void(int rank, const std::string& run_id)>& function) {
  static int runs = 0;
  const std::string run_id = "test-" + std::to_string(::getpid()) + "-" + std::to_string(runs++);
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank)
    children.push_back(start_child([&, rank] { function(rank, run_id); }));
  const auto deadline = std::chrono::steady_clock::now() + kWatchdog;
  std::vector<Outcome> outcomes;
  for (const Child& child : children) outcomes.push_back(collect(child, deadline));
  EXPECT_FALSE(is_in_shared_memory(run_id));
  return outcomes;
}

std::vector<Outcome> run_as_processes(int ranks, const RankFunction& function,
                                      std::chrono::milliseconds timeout, std::size_t chunk_bytes) {
  return run_processes(ranks, [&](int rank, const std::string& run_id) {
    const auto communicator = join_local_processes(
        {.run_id = run_id, .rank = rank, .size = ranks, .timeout = timeout, .chunk_bytes = chunk_bytes});
    function(*communicator);
  });
}

bool is_in_shared_memory(const std::string& run_id) {
  const int descriptor = ::shm_open(local::segment_name(run_id).c_str(), O_RDONLY, 0);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

void expect_fine(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    EXPECT_EQ(outcomes[rank].code, ExitCode::kOk) << "rank " << rank << ": " << outcomes[rank].message;
}

}  // namespace recollect::test
