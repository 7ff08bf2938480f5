#include "launch/ranks/world.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "comm/agree.h"
#include "comm/bootstrap.h"
#include "comm/local.h"
#include "comm/mpi.h"
#include "comm/tcp.h"
#include "engine/core/printable.h"
#include "launch/ranks/cores.h"

namespace recollect {

namespace {

constexpr int kMostThreadsOfCore = 16;

int share_of_process(int ranks_on_node) { return std::max(1, usable_cores() / std::max(1, ranks_on_node)); }

// Kernels divide their work by this number of threads, and the plan sizes their workspaces by it. It must not
// be more than OpenMP's limit.
int threads_for(const Config& config, int cores, int64_t most) {
  return static_cast<int>(std::min(config.device.threads > 0 ? config.device.threads : cores, most));
}

// Sets the number of threads of this rank before the ranks have exchanged their cores.
void claim_cores(const Config& config, int ranks_on_node) {
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int threads = threads_per_rank(config, ranks_on_node);
  if (threads > kMostThreadsOfCore * cores)
    throw Error(ExitCode::kConfiguration,
                fmt::format("device.threads {} on a node of {} cores: they would wait for each other, or the "
                            "system would refuse them",
                            threads, cores),
                fmt::format("{} a rank use every core; {} are the most that are accepted", cores,
                            kMostThreadsOfCore * cores));
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

std::chrono::milliseconds timeout(const Config& config) {
  return std::chrono::seconds(config.parallelism.timeout_seconds);
}

// Whether a rank failed only because another rank failed, or another rank reports the same error.
bool is_echo(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const SharedError& error) {
    return error.told_by_another();
  } catch (const Error& error) {
    return error.code() == ExitCode::kPeerLost;
  } catch (...) {
    return false;
  }
}

// Runs the ranks as threads of this process. The first rank to fail aborts its communicator, which ends the
// others; their errors about a lost peer do not replace the first error. No rank begins before all threads
// exist.
void run_threads(const Config& config, int size, const std::function<void(Communicator&)>& body) {
  LocalGroup group(size, timeout(config));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  std::unique_lock making(mutex);
  bool made = false;
  const auto start = [&](int rank) {
    threads.emplace_back([&, rank] {
      if (std::lock_guard lock(mutex); !made) return;
      try {
        claim_cores(config, size);
        const std::unique_ptr<Communicator> world = group.join(rank);
        body(*world);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first || (is_echo(first) && !is_echo(std::current_exception())))
          first = std::current_exception();
      }
    });
  };
  try {
    threads.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) start(rank);
    made = true;
  } catch (...) {
    first = std::current_exception();
  }
  making.unlock();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

std::string launcher_hint(int64_t ranks) {
  return fmt::format(
      "start it with 'recollect run --nproc-per-node {0} ...' or 'mpirun -np {0} recollect ...', "
      "or let parallelism.ranks_per_process: {0} make the ranks threads of one process",
      ranks);
}

CommunicatorKind choose_communicator(const Config& config, const RankEnvironment& who) {
  if (config.parallelism.communicator != CommunicatorKind::kAuto) return config.parallelism.communicator;
  if (who.by_mpi) return CommunicatorKind::kMpi;
  // PyTorch's env:// has four variables, and none of them says which ranks share a node.
  const bool has_place = std::getenv("MASTER_ADDR") && std::getenv("MASTER_PORT");
  if (who.run_id.empty() && has_place) return CommunicatorKind::kTcp;
  return who.local_size == who.size ? CommunicatorKind::kLocal : CommunicatorKind::kTcp;
}

std::unique_ptr<Communicator> join_tcp(const Config& config, const RankEnvironment& who) {
  const StoreEnvironment store = find_store(who);
  if (who.rank == 0 && who.local_size < who.size && store.token.empty())
    fmt::print(
        stderr,
        "recollect: ranks of several nodes meet on {} without a token: whoever reaches it may join them; "
        "set RECOLLECT_STORE_TOKEN_FILE\n",
        printable(store.place.host));
  return join_tcp_world({.run_id = who.run_id,
                         .rank = who.rank,
                         .size = who.size,
                         .store = store,
                         .join_timeout = timeout(config),
                         .timeout = timeout(config)});
}

std::unique_ptr<Communicator> join_by(CommunicatorKind kind, const Config& config, const RankEnvironment& who,
                                      std::unique_ptr<MpiEnvironment>& mpi) {
  if (kind == CommunicatorKind::kSelf)
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("{} started {} ranks, but parallelism.communicator is self", who.source, who.size),
        "each rank would train alone; use communicator: auto");
  if (kind == CommunicatorKind::kLocal && who.local_size != who.size)
    throw Error(ExitCode::kConfiguration,
                fmt::format("parallelism.communicator is local, but only {} of {} ranks are on this node",
                            who.local_size, who.size),
                "use communicator: tcp, or start the ranks with mpirun and use communicator: mpi");
  if (kind == CommunicatorKind::kLocal)
    return join_local_processes(
        {.run_id = who.run_id, .rank = who.rank, .size = who.size, .timeout = timeout(config)});
  if (kind == CommunicatorKind::kTcp) return join_tcp(config, who);
  mpi = std::make_unique<MpiEnvironment>();
  std::unique_ptr<Communicator> world = join_mpi_world(*mpi, timeout(config));
  if (world->size() != who.size)
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} says this is rank {} of {}, but the MPI world has {} rank(s)", who.source,
                            who.rank, who.size, world->size()),
                "start the ranks with mpirun, or set parallelism.communicator: local (one node) or tcp");
  return world;
}

// Ranks with different communicators wait for each other in different places. So each rank can only report
// where it waited.
std::unique_ptr<Communicator> join_world(const Config& config, const RankEnvironment& who,
                                         std::unique_ptr<MpiEnvironment>& mpi) {
  const CommunicatorKind kind = choose_communicator(config, who);
  try {
    return join_by(kind, config, who, mpi);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kPeerLost) throw;
    throw Error(
        error.code(),
        fmt::format("{}; parallelism.communicator of rank {} is {}", error.what(), who.rank, name_of(kind)),
        "all ranks must have the same parallelism.communicator" +
            (error.hint().empty() ? "" : "; " + error.hint()));
  }
}

}  // namespace

int ranks_of_node(int ranks) {
  const std::optional<RankEnvironment> who = discover_ranks();
  return who && who->size > 1 ? who->local_size : ranks;
}

int threads_per_rank(const Config& config, int ranks_on_node) {
  return threads_for(config, share_of_process(ranks_on_node), omp_get_thread_limit());
}

bool has_spare_cores(const Config& config, int ranks) {
  if (config.device.cores == 0) return has_spare_cores_for(config, ranks_of_node(ranks));
  const auto cores = static_cast<int>(config.device.cores);
  return threads_for(config, cores, omp_get_thread_limit()) < cores;
}

bool has_spare_cores_for(const Config& config, int ranks_on_node) {
  return threads_per_rank(config, ranks_on_node) < share_of_process(ranks_on_node);
}

void agree_on_threads(Config& config, Communicator& world) {
  CoreClaim claim = core_claim(SystemFiles(), ranks_of_node(world.size()));
  static_assert(std::is_trivially_copyable_v<CoreClaim>);
  std::vector<CoreClaim> all(static_cast<std::size_t>(world.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof claim);
  world.all_gather({&claim, {kBytes}, DType::kU8}, {all.data(), {kBytes * world.size()}, DType::kU8});
  std::vector<int> threads;
  for (int rank = 0; rank < world.size(); ++rank)
    threads.push_back(
        threads_for(config, share_of_cores(all, rank), all[static_cast<std::size_t>(rank)].most_threads));
  const int mine = threads[static_cast<std::size_t>(world.rank())],
            fewest = *std::min_element(threads.begin(), threads.end());
  config.device.cores = share_of_cores(all, world.rank());
  omp_set_num_threads(fewest);
  if (fewest < mine)
    fmt::print(stderr, "recollect: rank {}: {} of its {} threads, as many as every rank has\n", world.rank(),
               fewest, mine);
}

void agree_on_spare_cores(Config& config, Communicator& world) {
  int64_t some_lack_them = has_spare_cores(config, world.size()) ? 0 : 1;
  world.all_reduce({&some_lack_them, {1}, DType::kI64}, ReduceOp::kMax);
  config.device.spare_cores = some_lack_them == 0;
}

std::vector<CommunicatorKind> expected_communicators(const Config& config, int ranks) {
  using enum CommunicatorKind;
  const Config::Parallelism& p = config.parallelism;
  if (ranks == 1) return {kSelf};
  if (p.ranks_per_process > 1) return {kLocal};
  if (p.communicator == kAuto) return {kMpi, kLocal, kTcp};
  return {p.communicator};
}

void run_ranks(const Config& config, std::unique_ptr<MpiEnvironment>& mpi,
               const std::function<void(Communicator&)>& body) {
  undo_default_binding();
  const std::optional<RankEnvironment> who = discover_ranks();
  const int64_t wanted =
      config.parallelism.tensor_parallel_size * std::max<int64_t>(1, config.parallelism.data_parallel_size);
  const int threads = static_cast<int>(config.parallelism.ranks_per_process);
  if (who && who->size > 1) {
    if (threads > 1)
      throw Error(ExitCode::kConfiguration,
                  fmt::format("{} started {} processes, and parallelism.ranks_per_process is {}", who->source,
                              who->size, threads),
                  "threads as ranks are for a single process: set ranks_per_process: 1");
    claim_cores(config, who->local_size);
    const std::unique_ptr<Communicator> world = join_world(config, *who, mpi);
    body(*world);
    return;
  }
  if (threads > 1) {
    const CommunicatorKind kind = config.parallelism.communicator;
    if (kind == CommunicatorKind::kMpi || kind == CommunicatorKind::kTcp)
      throw Error(ExitCode::kConfiguration,
                  fmt::format("parallelism.communicator {} is for processes; with ranks_per_process {} the "
                              "ranks are threads",
                              name_of(kind), threads),
                  "use communicator: auto");
    return run_threads(config, threads, body);
  }
  if (wanted > 1)
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("tensor_parallel_size x data_parallel_size asks for {} ranks, but this process is alone",
                    wanted),
        launcher_hint(wanted));
  claim_cores(config, 1);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  body(*world);
}

}  // namespace recollect
