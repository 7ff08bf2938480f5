// Our collectives beside Open MPI's own calls on the same ranks, of 4 KiB to 64 MiB: over shared memory and over TCP on
// the loopback interface. All run in turn, so that what else the machine does slows all of them: a time is the median of
// rounds, each as long as its slowest rank takes.
//
//   mpirun -n RANKS bench_collectives [--json]                             MPI over shared memory
//   mpirun -n RANKS --mca btl self,tcp bench_collectives --tcp [--json]    MPI over TCP
//
// The ratio is MPI's time over ours on the same kind of link, above 1 where ours is faster.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/local.h"
#include "comm/tcp.h"
#include "engine/core/error.h"
#include "engine/io/json.h"

namespace recollect::bench {
namespace {

constexpr std::size_t kSmallest = 4 << 10, kLargest = 64 << 20;
constexpr int kWarmUps = 2;
constexpr double kSecondsOfRounds = 0.5;  // of each call and size, about
constexpr int kFewestRounds = 5, kMostRounds = 200;

// A port that was free a moment ago.
uint16_t free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  require(listener >= 0 && ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
              ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "no port is free on the loopback interface");
  ::close(listener);
  return ntohs(address.sin_port);
}

struct Ranks {
  int rank = 0, size = 1;
  std::unique_ptr<Communicator> local, tcp;
};

Ranks join_all() {
  Ranks ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
  int meeting[2] = {::getpid(), ranks.rank == 0 ? free_port() : 0};
  MPI_Bcast(meeting, 2, MPI_INT, 0, MPI_COMM_WORLD);
  const std::string run_id = fmt::format("bench-collectives-{}", meeting[0]);
  ranks.local = join_local_processes({.run_id = run_id, .rank = ranks.rank, .size = ranks.size});
  ranks.tcp = join_tcp_world(
      {.run_id = run_id,
       .rank = ranks.rank,
       .size = ranks.size,
       .store = {.place = {"127.0.0.1", {static_cast<uint16_t>(meeting[1])}}, .token = run_id}});
  return ranks;
}

// One collective on the memory of a rank, by us and by MPI. `whole` is what all ranks have together of it.
struct Collective {
  const char* name;
  std::function<void(Communicator&, float* whole, float* part, int64_t elements)> ours;
  std::function<void(float* whole, float* part, int64_t elements)> mpis;
};

Tensor tensor(float* data, int64_t elements) { return {data, {elements}, DType::kF32}; }

std::vector<Collective> collectives(int size) {
  return {{"all_reduce",
           [](Communicator& c, float* whole, float*, int64_t n) {
             c.all_reduce(tensor(whole, n), ReduceOp::kSum);
           },
           [](float* whole, float*, int64_t n) {
             MPI_Allreduce(MPI_IN_PLACE, whole, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
           }},
          {"all_gather",
           [size](Communicator& c, float* whole, float* part, int64_t n) {
             c.all_gather(tensor(part, n / size), tensor(whole, n / size * size));
           },
           [size](float* whole, float* part, int64_t n) {
             const int count = static_cast<int>(n / size);
             MPI_Allgather(part, count, MPI_FLOAT, whole, count, MPI_FLOAT, MPI_COMM_WORLD);
           }},
          {"reduce_scatter",
           [size](Communicator& c, float* whole, float* part, int64_t n) {
             c.reduce_scatter(tensor(whole, n / size * size), tensor(part, n / size));
           },
           [size](float* whole, float* part, int64_t n) {
             MPI_Reduce_scatter_block(whole, part, static_cast<int>(n / size), MPI_FLOAT, MPI_SUM,
                                      MPI_COMM_WORLD);
           }}};
}

// Of the slowest rank, in seconds.
double timed(const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  call();
  double seconds = MPI_Wtime() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string collective;
  std::size_t bytes = 0;
  double local = 0, tcp = 0, mpi = 0;  // seconds
};

// Zeros, which stay zeros however often they are summed.
Row measure(const Collective& collective, const Ranks& ranks, std::size_t bytes) {
  const auto elements = static_cast<int64_t>(bytes / sizeof(float));
  std::vector<float> whole(static_cast<std::size_t>(elements)), part(whole.size());
  const std::vector<std::function<void()>> calls = {
      [&] { collective.ours(*ranks.local, whole.data(), part.data(), elements); },
      [&] { collective.ours(*ranks.tcp, whole.data(), part.data(), elements); },
      [&] { collective.mpis(whole.data(), part.data(), elements); }};
  double of_a_round = 0;  // the same on all ranks, which so agree on the number of rounds
  for (int i = 0; i < kWarmUps; ++i) {
    of_a_round = 0;
    for (const auto& call : calls) of_a_round += timed(call);
  }
  const int rounds = std::clamp(static_cast<int>(kSecondsOfRounds / of_a_round), kFewestRounds, kMostRounds);
  std::vector<double> times[3];
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < calls.size(); ++i) times[i].push_back(timed(calls[i]));
  return {collective.name, bytes, median(times[0]), median(times[1]), median(times[2])};
}

std::string size_text(std::size_t bytes) {
  return bytes >= (1 << 20) ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

void print_table(const std::vector<Row>& rows, int ranks, bool over_tcp) {
  fmt::print("{} ranks, MPI over {}; microseconds\n\n", ranks, over_tcp ? "TCP" : "shared memory");
  fmt::print("| collective | bytes | local | tcp | MPI | {} against MPI |\n|---|---|---|---|---|---|\n",
             over_tcp ? "tcp" : "local");
  for (const Row& row : rows)
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.2f}x |\n", row.collective, size_text(row.bytes),
               1e6 * row.local, 1e6 * row.tcp, 1e6 * row.mpi, row.mpi / (over_tcp ? row.tcp : row.local));
}

void print_json(const std::vector<Row>& rows, int ranks, bool over_tcp) {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows)
    all.push_back({{"collective", row.collective},
                   {"bytes", row.bytes},
                   {"local_seconds", row.local},
                   {"tcp_seconds", row.tcp},
                   {"mpi_seconds", row.mpi}});
  fmt::print(
      "{}\n",
      nlohmann::json{{"ranks", ranks}, {"mpi_over", over_tcp ? "tcp" : "shared memory"}, {"rows", all}}.dump(
          1));
}

void run(bool json, bool over_tcp) {
  const Ranks ranks = join_all();
  std::vector<Row> rows;
  for (const Collective& collective : collectives(ranks.size))
    for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4)
      rows.push_back(measure(collective, ranks, bytes));
  if (ranks.rank != 0) return;
  if (json)
    print_json(rows, ranks.size, over_tcp);
  else
    print_table(rows, ranks.size, over_tcp);
}

}  // namespace
}  // namespace recollect::bench

int main(int count, char** words) {
  bool json = false, over_tcp = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--json") == 0)
      json = true;
    else if (std::strcmp(words[i], "--tcp") == 0)
      over_tcp = true;
    else
      return fmt::print(stderr, "mpirun -n RANKS bench_collectives [--tcp] [--json]\n"), 2;
  }
  MPI_Init(&count, &words);
  try {
    recollect::bench::run(json, over_tcp);
  } catch (const recollect::Error& error) {
    fmt::print(stderr, "bench_collectives: {}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.code()));
  }
  MPI_Finalize();
}
