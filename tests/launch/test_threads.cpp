// A rank's threads are as many as the cores that are its own, and decide no bit of its training; its
// instructions do, and are what was asked for.
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "comm/local.h"
#include "engine/ops/cpu_level.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/doctor/check.h"
#include "launch/ranks/cores.h"
#include "launch/ranks/world.h"
#include "launch/train/session.h"
#include "tests/launch/process.h"

namespace recollect::test::threads_test {
namespace {

constexpr char kYaml[] = R"(
model: {type: gpt2, n_layer: 2, n_embd: 48, n_head: 3, vocab_size: 211, n_positions: 64}
data: {format: random, sequence_length: 64}
training: {micro_batch_size: 5, max_steps: 4}
optimizer: {learning_rate: 1e-3, max_grad_norm: 1.0}
device: {backend: cpu}
)";

const Words kCpu = {"device.backend=cpu", "training.precision=fp32"};

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(const Trained&) const = default;
};

Trained train(const std::string& precision, int threads, const Words& words = {}) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Config config = read_config_text("threads.yaml", kYaml, Words{"training.precision=" + precision} + words);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  Session session(config, *world);
  Trained trained;
  for (int step = 0; step < 4; ++step) trained.losses.push_back(session.step().loss);
  for (const Parameter& p : session.training_program().model.parameters) {
    const Tensor t = session.executor().tensor(p.value);
    const auto* bytes = static_cast<const std::byte*>(t.data);
    trained.parameters.emplace_back(bytes, bytes + t.bytes());
  }
  omp_set_num_threads(before);
  return trained;
}

TEST(Threads, DecideNoBitOfTraining) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Trained one = train(precision, 1);
    for (const int threads : {2, 3})
      EXPECT_TRUE(train(precision, threads) == one) << precision << " on " << threads << " threads";
  }
}

// A rank of node 1 that may run on these cores.
CoreClaim claim_of(std::initializer_list<int> cores, int64_t ranks, double quota = 0, uint64_t group = 0) {
  CoreClaim claim{.node = 1, .group = group, .quota = quota, .ranks = ranks};
  for (const int core : cores) claim.cores.set(static_cast<std::size_t>(core));
  return claim;
}

std::vector<int> shares(const std::vector<CoreClaim>& claims) {
  std::vector<int> all;
  for (int rank = 0; rank < static_cast<int>(claims.size()); ++rank)
    all.push_back(share_of_cores(claims, rank));
  return all;
}

using Counts = std::vector<int>;

TEST(Cores, OfOneSetAreDividedAndOwnOnesAreNot) {
  const CoreClaim six = claim_of({0, 1, 2, 3, 4, 5}, 3), socket = claim_of({4, 5, 6, 7}, 3);
  EXPECT_EQ(shares({six}), Counts{6});
  EXPECT_EQ(shares({six, six, six}), (Counts{2, 2, 2}));
  EXPECT_EQ(shares({claim_of({0, 1, 2}, 2), claim_of({0, 1, 2}, 2)}), (Counts{1, 1}));
  EXPECT_EQ(shares({claim_of({0}, 3), claim_of({0}, 3), claim_of({0}, 3)}), (Counts{1, 1, 1}));
  EXPECT_EQ(shares({claim_of({0, 1, 2, 3}, 2), claim_of({4, 5}, 2)}), (Counts{4, 2}));
  EXPECT_EQ(shares({claim_of({0, 1, 2, 3}, 3), socket, socket}), (Counts{4, 2, 2}));
  EXPECT_EQ(shares({claim_of({0, 1, 2, 3}, 2), claim_of({3}, 2)}), (Counts{3, 1}));
  EXPECT_EQ(shares({claim_of({}, 1)}), Counts{1});
}

TEST(Cores, OfOtherNodesAreNotShared) {
  CoreClaim here = claim_of({0, 1, 2, 3}, 1), there = here;
  there.node = 2;
  EXPECT_EQ(shares({here, there}), (Counts{4, 4}));
  EXPECT_EQ(shares({here, here}), (Counts{4, 4})) << "the launcher says that each is alone";
}

TEST(Cores, OfAControlGroupAreDividedByItsRanks) {
  const CoreClaim inner = claim_of({0, 1, 2, 3, 4, 5, 6, 7}, 2, 3.5, 9);
  EXPECT_EQ(shares({inner}), Counts{3});
  EXPECT_EQ(shares({inner, inner}), (Counts{1, 1}));
  CoreClaim other = inner, free = inner;
  other.group = 8;
  free.quota = 0;
  EXPECT_EQ(shares({inner, other}), (Counts{3, 3}));
  EXPECT_EQ(shares({inner, free}), (Counts{3, 4}));
  EXPECT_EQ(shares({claim_of({0, 1}, 1, 0.5, 9)}), Counts{1});
}

TEST(Cores, ThatNobodyAskedOpenMpiToBindToAreNotKept) {
  const auto is_default = [](std::map<std::string, std::string> set) {
    return is_bound_by_default([set = std::move(set)](const char* name) -> const char* {
      const auto found = set.find(name);
      return found == set.end() ? nullptr : found->second.c_str();
    });
  };
  const std::string bound = "OMPI_MCA_orte_bound_at_launch";
  EXPECT_FALSE(is_default({}));
  EXPECT_TRUE(is_default({{bound, "1"}}));
  EXPECT_FALSE(is_default({{bound, "1"}, {"OMPI_MCA_hwloc_base_binding_policy", "core"}}));
  EXPECT_FALSE(is_default({{bound, "1"}, {"OMPI_MCA_rmaps_base_mapping_policy", "slot:PE=1"}}));
}

TEST(Cores, OfOpenMpiAreThoseOfTheProcessAroundUs) {
  const TemporaryFolder root;
  root.write("proc/7/stat", "7 (sh (of 1) mpirun) S 5 7 7\n");
  root.write("proc/5/stat", "5 (orted) S 3 5 5\n");
  root.write("proc/3/stat", "3 (mpirun) S 0 3 3\n");
  root.write("proc/8/stat", "8 (sh) S 0 8 8\n");
  root.write("proc/9/stat", "nothing");
  const SystemFiles files(root.path());
  EXPECT_EQ(find_open_mpi(files, 7), 5);
  EXPECT_EQ(find_open_mpi(files, 3), 3);
  for (const int none : {0, 8, 9, 10}) EXPECT_FALSE(find_open_mpi(files, none)) << none;
}

// Binds this thread, and what it starts, to the first of its cores.
class OnOneCore {
 public:
  OnOneCore() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) throw std::runtime_error("no affinity");
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_;
};

std::string threads_said(const Workplace& place, const Words& starter) {
  const Words train = {recollect_binary(), "train", "c.yaml", "training.max_steps=1"};
  const Finished run = Process(starter + train + kCpu, place.folder().path()).wait(Workplace::kBound);
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  const std::string report = TemporaryFolder::read(place.file("out/memory.rank0.json"));
  const std::size_t each = report.find(", each "), of = report.find(" of ", each);
  return each == std::string::npos ? "" : report.substr(each + 7, of - each - 7);
}

TEST(Cores, ThatAProcessIsBoundToAreItsThreads) {
  const bool has_others = usable_cores() > 1;
  const Workplace place;
  const OnOneCore bound;
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_EQ(threads_said(place, {}), "1 thread");
  const std::string found = doctor::check_processor(SystemFiles()).checks[1].found;
  EXPECT_EQ(found.find("this process is bound to 1") != std::string::npos, has_others) << found;
}

TEST(Cores, OfMpirunsChoiceAreKeptWhereItWasAsked) {
  const int all = std::min(usable_cores(), omp_get_thread_limit());
  const Workplace place;
  const Words start = {
      "env", "-u", "OMPI_MCA_hwloc_base_binding_policy", RECOLLECT_MPIRUN, "--allow-run-as-root", "-np", "1"};
  EXPECT_EQ(threads_said(place, start), all == 1 ? "1 thread" : std::to_string(all) + " threads");
  EXPECT_EQ(threads_said(place, start + Words{"--bind-to", "hwthread"}), "1 thread");
}

TEST(Cores, AreComparedByRanks) {
  const int share = std::max(1, usable_cores() / 2);
  LocalGroup group(2, std::chrono::seconds(60));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> world = group.join(rank);
      Config config;
      agree_on_threads(config, *world);
      EXPECT_EQ(config.device.cores, share);
      EXPECT_EQ(omp_get_max_threads(), std::min(share, omp_get_thread_limit()));
      config.device.threads = 1;
      agree_on_threads(config, *world);
      EXPECT_EQ(omp_get_max_threads(), 1);
      agree_on_spare_cores(config, *world);
      EXPECT_EQ(config.device.spare_cores, share > 1);
    });
  for (std::thread& rank : ranks) rank.join();
}

// Every set of instructions that this processor and this build have.
TEST(Isa, IsTheOneAskedForAndChangesNoBitWhateverIsCheckpointed) {
  for (const CpuLevel& level : cpu_levels()) {
    if (!can_run(level.isa)) continue;
    const std::string isa(name_of(level.isa));
    for (const char* precision : {"fp32", "bf16"}) {
      const Trained plain = train(precision, 2, {"device.isa=" + isa});
      const Trained full = train(precision, 2, {"device.isa=" + isa, "activation_checkpointing.mode=full"});
      EXPECT_TRUE(plain == full) << precision << " with " << isa;
    }
    const Workplace place;
    const Finished run = place.train(kCpu + Words{"device.isa=" + isa, "training.max_steps=1"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_NE(TemporaryFolder::read(place.file("out/memory.rank0.json"))
                  .find(" of " + level.instruction_set() + ", libm"),
              std::string::npos)
        << isa;
  }
}

TEST(Isa, ThatIsNotHereIsNamed) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    const auto levels = cpu_levels();
    const bool built =
        std::any_of(levels.begin(), levels.end(), [&](const CpuLevel& level) { return level.isa == isa; });
    if (built && can_run(isa)) continue;
    const std::string name(name_of(isa));
    const Workplace place;
    const Finished run = place.train(kCpu + Words{"device.isa=" + name});
    EXPECT_EQ(run.status, 2);
    EXPECT_NE(run.err.find("device.isa " + name +
                           (built ? ": this processor has not all of " : ": this build has no kernels for ") +
                           name + "; here: auto, "),
              std::string::npos)
        << run.err;
  }
  const Workplace place;
  const Finished run =
      place.train({"device.isa=" + std::string(name_of(cpu_level().isa)), "device.backend=reference"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("device.isa"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace recollect::test::threads_test
