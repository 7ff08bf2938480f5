// A rank's threads decide no bit of its training.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>

#include "comm/communicator.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/train/session.h"

namespace recollect::test::threads_test {
namespace {

constexpr char kYaml[] = R"(
model: {type: gpt2, n_layer: 2, n_embd: 48, n_head: 3, vocab_size: 211, n_positions: 64}
data: {format: random, sequence_length: 64}
training: {micro_batch_size: 5, max_steps: 4}
optimizer: {learning_rate: 1e-3, max_grad_norm: 1.0}
device: {backend: cpu}
)";

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(const Trained&) const = default;
};

Trained train(const std::string& precision, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Config config = read_config_text("threads.yaml", kYaml, {"training.precision=" + precision});
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

}  // namespace
}  // namespace recollect::test::threads_test
