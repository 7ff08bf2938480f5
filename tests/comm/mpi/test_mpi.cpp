// Run under mpirun. Every collective over MPI, on the world, on split groups and from two threads at once, to
// the bit, and against the same calls over shared memory. The verdict is reduced over the ranks: all succeed
// or all fail.
//
//   test_comm_mpi           checks collectives; exit 0 when every rank is content
//   test_comm_mpi mismatch  one rank sends what another does not expect; exit 8 when both hear, 1 when not
//   test_comm_mpi unsent    one rank waits for a tensor in vain; exit 9 when its sender is named, 1 when not
//   test_comm_mpi chain     a rank waits for one that is stuck, another for that rank, nearly a timeout later;
//                           exit 9 when both name who is stuck, 1 when not
//   test_comm_mpi disagree  one rank makes another call; exit 8 when all ranks are told, 1 when not
//   test_comm_mpi late      one rank does not come in time; exit 9 when it is named, 1 when not
//   test_comm_mpi leave     one rank ends with an Error; exit 7
//   test_comm_mpi lost      one rank is killed; exit 0 never
//   test_comm_mpi stuck R   rank R of a mesh, two tensor ranks wide, stops; exit 9 when all others blame R, 1
//                           when not
#include <fmt/format.h>
#include <signal.h>

#include <optional>
#include <thread>

#include "comm/bootstrap.h"
#include "comm/local.h"
#include "comm/mpi.h"
#include "tests/comm/check_collectives.h"
#include "tests/comm/check_passing.h"
#include "tests/comm/held_rank.h"
#include "tests/comm/mesh_blame.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using test::CollectiveChecker;

const std::vector<int64_t> kSizes{0, 1, 7, 1021, 10007};
constexpr int64_t kLarge = 600011;  // several chunks of staging memory, for doubles

std::vector<std::string> check_streams(Communicator& world) {
  const auto other = world.split(0);
  std::vector<std::string> failures;
  std::jthread stream([&] { failures = CollectiveChecker(*other).run({1021, 7, 5003}); });
  auto mine = CollectiveChecker(world).run({61, 5003, 1021, 1});
  stream.join();
  mine.insert(mine.end(), failures.begin(), failures.end());
  return mine;
}

// Random floats through both communicators.
std::vector<std::string> compare_with_local(Communicator& mpi, const std::string& run_id) {
  const auto local = join_local_processes(
      {.run_id = run_id, .rank = mpi.rank(), .size = mpi.size(), .timeout = 60s, .chunk_bytes = 8192});
  std::vector<std::string> failures;
  for (const int64_t n : {int64_t{1}, int64_t{777}, kLarge}) {
    auto a = test::inputs<bf16>(test::Data::kRandom, mpi.rank(), 0, n);
    auto b = a;
    mpi.all_reduce({a.data(), {n}, DType::kBF16}, ReduceOp::kSum);
    local->all_reduce({b.data(), {n}, DType::kBF16}, ReduceOp::kSum);
    auto c = test::inputs<float>(test::Data::kRandom, mpi.rank(), 0, n);
    auto d = c;
    mpi.all_reduce({c.data(), {n}, DType::kF32}, ReduceOp::kSum);
    local->all_reduce({d.data(), {n}, DType::kF32}, ReduceOp::kSum);
    if (std::memcmp(a.data(), b.data(), a.size() * 2) != 0 ||
        std::memcmp(c.data(), d.data(), c.size() * 4) != 0)
      failures.push_back(fmt::format("rank {}: mpi and local differ for {} elements", mpi.rank(), n));
  }
  return failures;
}

std::vector<std::string> check_collectives(Communicator& world) {
  const auto environment = discover_ranks();
  if (!environment || environment->rank != world.rank() || environment->size != world.size())
    return {"the environment does not say who this rank is"};
  auto failures = CollectiveChecker(world).run(kSizes);
  const auto add = [&](std::vector<std::string> more) {
    failures.insert(failures.end(), more.begin(), more.end());
  };
  add(CollectiveChecker(world).run_large(kLarge));
  add(test::PassingChecker(world).run({0, 1, 1021, 100'003}));
  const auto row = world.split(world.rank() / 2 - 7), column = world.split(world.rank() % 2);
  add(CollectiveChecker(*row).run({1021}));
  add(CollectiveChecker(*column).run({1021}));
  add(test::PassingChecker(*column).run({61}));
  add(check_streams(world));
  if (world.size() > 1)
    if (const std::string problem = test::problem_with_held_rank(world, 1); !problem.empty()) add({problem});
  add(compare_with_local(world, environment->run_id));
  return failures;
}

// The Error that ends this rank; it has to say `expected`.
int expect_error(Communicator& world, const char* mode, const std::string& expected, ExitCode code) {
  try {
    float values[4] = {};
    const std::string name = mode;
    const bool odd = world.rank() == 1;
    if (odd && name == "late") std::this_thread::sleep_for(20s);
    if (odd && name == "lost") ::raise(SIGKILL);
    if (name == "mismatch" || name == "unsent") {
      const bool mismatch = name == "mismatch";
      if (world.rank() == 0) world.receive({values, {3}, DType::kF32}, 1);
      if (odd && mismatch) world.send({values, {4}, DType::kF32}, 0);
      std::this_thread::sleep_for(20s);  // mpirun ends this rank
    }
    world.all_reduce({values, {odd && name == "disagree" ? 3 : 4}, DType::kF32}, ReduceOp::kSum);
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: {}\n", world.rank(), error.what());
    const bool right = error.code() == code && std::string(error.what()).find(expected) != std::string::npos;
    return right ? static_cast<int>(code) : 1;
  }
  return 1;
}

// Where every rank but `stuck` fails in `call`.
template <typename Call>
int expect_blamed(const Communicator& world, int stuck, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: {}\n", world.rank(), error.what());
    if (test::accused_in(error.what()) != std::set{stuck}) return 1;
    std::this_thread::sleep_for(1500ms);  // every rank gets to tell
    return static_cast<int>(error.code());
  }
  return 1;
}

// Rank 1 has given up and says nothing any more when rank 0 gives up too.
void wait_in_a_chain(Communicator& world, std::chrono::milliseconds timeout) {
  float values[4] = {};
  const Tensor tensor{values, {4}, DType::kF32};
  world.barrier();
  if (world.rank() == 1) world.receive(tensor, 2);
  if (world.rank() == 2) std::this_thread::sleep_for(20s);  // mpirun ends this rank
  std::this_thread::sleep_for(timeout * 9 / 10);
  world.send(tensor, 1);
}

int run(const MpiEnvironment& environment, const std::string& mode, int stuck) {
  const std::chrono::milliseconds timeout = mode == "late" || mode == "unsent" ? 500ms
                                            : mode == "chain"                  ? 1000ms
                                            : mode == "stuck"                  ? 4000ms
                                                                               : 60s;
  const auto world = join_mpi_world(environment, timeout);
  int status = 0;
  if (mode == "stuck") {
    const auto place = static_cast<test::Place>(stuck % 3);
    status = expect_blamed(*world, stuck,
                           [&] { test::sum_over_mesh(*world, 2, stuck, place, [] { ::raise(SIGSTOP); }); });
  } else if (mode == "chain") {
    status = expect_blamed(*world, 2, [&] { wait_in_a_chain(*world, timeout); });
  } else if (mode == "disagree") {
    status = expect_error(*world, "disagree", "rank 1: all_reduce #1 (sum, f32, 12 bytes)",
                          ExitCode::kRanksDisagree);
    std::this_thread::sleep_for(500ms);  // every rank gets to tell
  } else if (mode == "mismatch") {
    status = expect_error(*world, "mismatch", "rank 1: send #1 to rank 0 (f32, 16 bytes)",
                          ExitCode::kRanksDisagree);
    std::this_thread::sleep_for(500ms);
  } else if (mode == "unsent") {
    status =
        expect_error(*world, "unsent", "receive #1 from rank 1 of rank 0: rank 1 did not come within 500 ms",
                     ExitCode::kPeerLost);
  } else if (mode == "leave") {
    if (world->rank() == 1) throw Error(ExitCode::kNumerics, "loss is NaN");
    world->barrier();
  } else if (mode == "late" || mode == "lost") {
    status = expect_error(*world, mode.c_str(), "rank 1 did not come within 500 ms", ExitCode::kPeerLost);
  } else {
    int64_t failed = 0;
    for (const std::string& failure : check_collectives(*world)) {
      fmt::print(stderr, "{}\n", failure);
      ++failed;
    }
    world->all_reduce({&failed, {1}, DType::kI64}, ReduceOp::kSum);
    if (world->rank() == 0) fmt::print("{} ranks, {} failures\n", world->size(), failed);
    return failed == 0 ? 0 : 1;
  }
  mpi_abort(status);
  return status;
}

}  // namespace
}  // namespace recollect

int main(int argc, char** argv) {
  std::optional<recollect::MpiEnvironment> environment;
  try {
    environment.emplace();
    return recollect::run(*environment, argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 0);
  } catch (const recollect::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    recollect::mpi_abort(static_cast<int>(error.code()));
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    recollect::mpi_abort(1);
    return 1;
  }
}
