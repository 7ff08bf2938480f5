// What every run keeps: no allocation after start-up, no step on numbers that are not finite, bf16 close to
// float, the same bits twice.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "launch/config/read.h"
#include "launch/train/session.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/training_harness.h"

namespace {

// Allocations of this process through operator new since the last reset, while counting.
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0, allocated_bytes = 0;

void* count(std::size_t bytes) {
  if (counting) {
    ++allocations;
    allocated_bytes += static_cast<int64_t>(bytes);
  }
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: a compiler that sees half of a pair takes it for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return count(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return count(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return count(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return count(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace recollect::test::run_properties_test {
namespace {

// Allocations during steps 3 to 6 of a run on one rank, and the evaluations between them, if it has any.
int64_t allocations_in_steps(const std::vector<std::string>& overrides, int64_t& bytes) {
  Config config = read_config_text("test.yaml", kTinyYaml, overrides);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  Session session(config, *world);
  const bool evaluates = config.evaluation.every_steps > 0;
  session.step();
  session.step();
  if (evaluates) session.evaluate();
  allocations = 0;
  allocated_bytes = 0;
  counting = true;
  for (int i = 0; i < 4; ++i) {
    session.step();
    if (evaluates) session.evaluate();
  }
  counting = false;
  bytes = allocated_bytes;
  return allocations;
}

TEST(Allocation, NoneAfterStartUpOnReference) {
  int64_t bytes = 0;
  EXPECT_EQ(allocations_in_steps({}, bytes), 0);
  EXPECT_EQ(allocations_in_steps({"evaluation.every_steps=1", "evaluation.batches=2"}, bytes), 0);
}

TEST(Allocation, NoneOnTheWayToTheDisk) {
  const test::TemporaryFolder folder;
  const std::string key = "activation_checkpointing.";
  for (const char* host : {"false", "true"}) {
    int64_t bytes = 0;
    EXPECT_EQ(
        allocations_in_steps({"model.n_layer=5", key + "mode=full", key + "cpu_checkpointing=" + host,
                              key + "storage_dtype=bf16", key + "disk_checkpointing.path=" + folder.path()},
                             bytes),
        0)
        << bytes;
  }
}

TEST(Allocation, NoneOnCpu) {
  for (const char* precision : {"fp32", "bf16"}) {
    int64_t bytes = 0;
    const std::string key = "training.precision=";
    EXPECT_EQ(allocations_in_steps({"device.backend=cpu", key + precision}, bytes), 0) << bytes;
  }
}

TEST(Numerics, ANonFiniteStepIsNamedAndNotTaken) {
  for (const char* backend : {"reference", "cpu"}) {
    Config config = read_config_text("test.yaml", kTinyYaml,
                                     {"training.precision=fp32", std::string("device.backend=") + backend});
    const std::unique_ptr<Communicator> world = make_self_communicator();
    resolve_world(config, 1);
    Session session(config, *world);
    session.step();
    const Parameter* broken = nullptr;
    for (const Parameter& p : session.training_program().model.parameters)
      if (p.name == "h.1.mlp.c_fc.bias") broken = &p;
    ASSERT_NE(broken, nullptr);
    const Tensor bias = session.executor().tensor(broken->value);
    bias.as<float>()[3] = INFINITY;
    const Tensor other = session.executor().tensor(session.training_program().model.parameters.front().value);
    const std::vector<float> before(other.as<float>(), other.as<float>() + other.elements());
    try {
      session.step();
      FAIL() << "an infinite bias went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNumerics);
      EXPECT_NE(std::string(error.what()).find("h.1.mlp.c_fc.bias"), std::string::npos) << error.what();
    }
    EXPECT_EQ(std::memcmp(before.data(), other.data, other.bytes()), 0) << "a step was taken all the same";
  }
}

TEST(Numerics, RanksStopTogether) {  // and not by waiting for each other
  EXPECT_THROW(
      train(kTinyYaml, {"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0", "training.max_steps=4",
                        "parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}),
      Error);
}

TEST(Bf16, FollowsFloat) {
  const std::vector<std::string> cpu = {"device.backend=cpu", "device.threads=1", "training.max_steps=10"};
  std::vector<std::string> fp32 = cpu, bf16 = cpu;
  fp32.push_back("training.precision=fp32");
  bf16.push_back("training.precision=bf16");
  const Trained a = train(kTinyYaml, fp32), b = train(kTinyYaml, bf16);
  ASSERT_EQ(a.steps.size(), 10u);
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 0.01 * a.steps[i].loss);
  EXPECT_EQ(b.predicted, b.measured);
}

TEST(Determinism, TheSameRunTwiceIsTheSameBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::vector<std::string> words = {
        "device.backend=cpu", std::string("training.precision=") + precision, "device.threads=2",
        "parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
    const Trained a = train(kTinyYaml, words), b = train(kTinyYaml, words);
    EXPECT_EQ(largest_difference(a.parameters, b.parameters), 0);
    EXPECT_EQ(a.steps.back().loss, b.steps.back().loss);
  }
}

}  // namespace
}  // namespace recollect::test::run_properties_test
