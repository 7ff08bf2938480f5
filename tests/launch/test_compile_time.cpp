// A length that comes late costs milliseconds: a program for it is planned, compiled and given its kernels while training
// waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/program_cache.h"
#include "launch/program/task.h"
#include "launch/ranks/world.h"
#include "tests/launch/planned.h"

namespace recollect::test::compile_time_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 256, n_positions: 128, n_embd: 64, n_layer: 12, n_head: 4}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 4, max_steps: 1}
data: {format: jsonl, path: x, padding: longest, pad_to_multiple_of: 16}
)";

// Of all threads of this process, so that what else the machine does is not counted.
double processor_milliseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

// What the program of each late length took; the middle one of them.
double median_milliseconds(int layers, const Words& words = {}) {
  Config config =
      read_config_text("test.yaml", kYaml, words + Words{"model.n_layer=" + std::to_string(layers)});
  std::vector<double> took;
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    resolve_world(config, world.size());
    const Backend backend(config, world);
    const Mesh mesh(world, mesh_axes(config), backend.world());
    const std::vector<BatchShape> shapes = all_batch_shapes(config);
    ProgramCache programs(config, mesh, backend, shapes);
    EXPECT_EQ(programs.all().size(), 1u);
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      const double before = processor_milliseconds();
      programs.at(shapes[i]);
      took.push_back(processor_milliseconds() - before);
    }
    EXPECT_EQ(programs.all().size(), 8u);
  });
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

TEST(CompileTime, OfALateLengthIsMilliseconds) {
  const double twelve = median_milliseconds(12), many = median_milliseconds(48);
  EXPECT_LE(twelve, 20) << "12 layers";
  EXPECT_LE(many, 60) << "48 layers";
  RecordProperty("milliseconds_12_layers", std::to_string(twelve));
  RecordProperty("milliseconds_48_layers", std::to_string(many));
}

// And the plan for it, where there is no room for everything.
TEST(CompileTime, OfALateLengthWithAPlanIsMilliseconds) {
  const Config none = planned(kYaml, {"model.n_layer=12"});
  const double twelve = median_milliseconds(12, budget(bytes_of(none) * 3 / 4));
  EXPECT_LE(twelve, 25);
  RecordProperty("milliseconds_12_layers", std::to_string(twelve));
}

}  // namespace
}  // namespace recollect::test::compile_time_test
