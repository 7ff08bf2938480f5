#include "tests/launch/training_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "engine/io/safetensors.h"
#include "launch/config/read.h"
#include "launch/ranks/world.h"

namespace recollect::test {

const char* const kTinyYaml = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 16, n_embd: 24, n_layer: 2, n_head: 4,
        resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1, initializer_range: 0.2}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 2, seed: 7}
optimizer: {name: sgd, momentum: 0.9, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";

Tensors read_tensors(const std::string& path, const std::string& prefix) {
  const SafetensorsFile file(path);
  Tensors tensors;
  for (const TensorEntry& entry : file.entries()) {
    if (!entry.name.starts_with(prefix)) continue;
    int64_t elements = 1;
    for (int64_t d : entry.shape) elements *= d;
    std::vector<double>& values = tensors[entry.name.substr(prefix.size())];
    values.resize(elements);
    file.read_as(entry, values.data());
  }
  return tensors;
}

void on_ranks(const Config& config, const std::function<void(const Config&, Session&)>& body,
              const std::function<ProgramParts(int rank)>& parts) {
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    try {
      resolve_world(mine, world.size());
      Session session(mine, world, parts ? parts(world.rank()) : ProgramParts{});
      body(mine, session);
      world.barrier();
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
}

Trained train(const std::string& yaml, const std::vector<std::string>& overrides,
              const std::function<ProgramParts(int rank)>& parts) {
  const TemporaryFolder folder;
  Config config = read_config_text("test.yaml", yaml, overrides);
  if (config.debug.dump_gradients.empty()) config.debug.dump_gradients = folder.file("gradients.safetensors");
  Trained result;
  const int ranks = static_cast<int>(config.parallelism.ranks_per_process);
  result.predicted.resize(ranks);
  result.measured.resize(ranks);
  result.communication_buffers.resize(ranks);
  const auto body = [&](const Config& mine, Session& session) {
    const int rank = session.mesh().world().rank();
    const auto evaluate_if_due = [&] {
      if (!evaluation_due(mine, session.so_far())) return;
      const EvaluationResult evaluated = session.evaluate();
      if (rank == 0) result.evaluations.push_back(evaluated);
    };
    for (int64_t step = 0; step < mine.training.max_steps; ++step) {
      const StepResult done = session.step();
      if (rank == 0) result.steps.push_back(done);
      evaluate_if_due();
    }
    if (mine.training.max_steps == 0) evaluate_if_due();
    result.predicted[rank] = session.executor().program().predicted();
    result.measured[rank] = session.executor().measured();
    result.communication_buffers[rank] = session.mesh().staging_bytes();
    if (mine.training.max_steps == 0) return;
    std::unique_ptr<SafetensorsWriter> file;
    if (rank == 0) file = session.weights().begin_file(folder.file("model.safetensors"));
    if (const std::optional<Error> failed = session.weights().save(file.get())) throw *failed;
  };
  on_ranks(config, body, parts);
  if (config.training.max_steps == 0) return result;
  result.gradients = read_tensors(config.debug.dump_gradients, "");
  result.parameters = read_tensors(folder.file("model.safetensors"), "");
  return result;
}

void expect_same_bits(const Trained& a, const Trained& b, const std::string& what) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss) << what << ", step " << i + 1;
    EXPECT_EQ(a.steps[i].skipped, b.steps[i].skipped) << what << ", step " << i + 1;
    const double left = a.steps[i].grad_norm, right = b.steps[i].grad_norm;
    EXPECT_TRUE(left == right || (std::isnan(left) && std::isnan(right)))
        << left << " and " << right << ": " << what << ", step " << i + 1;
  }
  EXPECT_EQ(a.gradients, b.gradients) << what;
  EXPECT_EQ(a.parameters, b.parameters) << what;
  EXPECT_EQ(b.predicted, b.measured) << what;
}

double largest_difference(const Tensors& a, const Tensors& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, left] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.size() != left.size()) {
      ADD_FAILURE() << name << " is missing or of another size";
      return INFINITY;
    }
    double scale = 0, difference = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      scale = std::max(scale, std::abs(left[i]));
      const double d = std::abs(left[i] - found->second[i]);
      difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    }
    EXPECT_GT(scale, 0) << name << " is all zero: nothing is compared";
    if (scale > 0) largest = std::max(largest, difference / scale);
  }
  return largest;
}

}  // namespace recollect::test
