#include "tests/launch/report_harness.h"

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/ranks/world.h"

namespace recollect::test {

const char* const kReportYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 16, n_embd: 24, n_layer: 6, n_head: 4}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 2, seed: 3}
data: {format: random, sequence_length: 16}
)";

std::vector<std::string> checkpointed(int tensor, const std::string& mode, bool partition, bool host) {
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor), "activation_checkpointing.mode=" + mode,
          "activation_checkpointing.partition_activations=" + text(partition),
          "activation_checkpointing.cpu_checkpointing=" + text(host)};
}

std::vector<RankReport> reports_of_run(const std::vector<std::string>& words,
                                       const std::function<ProgramParts(int rank)>& parts) {
  const Config config = read_config_text("test.yaml", kReportYaml, words);
  std::vector<RankReport> reports(static_cast<std::size_t>(config.parallelism.ranks_per_process));
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    resolve_world(mine, world.size());
    Session session(mine, world, parts ? parts(world.rank()) : ProgramParts{});
    for (int64_t step = 0; step < mine.training.max_steps; ++step) session.step();
    reports[static_cast<std::size_t>(world.rank())] = report_of(mine, session.measurements());
    world.barrier();
  });
  return reports;
}

RankReport predicted_report(const std::vector<std::string>& words) {
  Config config = read_config_text("test.yaml", kReportYaml, words);
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  return predict(config, planned.rank.mesh(), planned.training, planned.training.program,
                 planned.training.program.predicted());
}

}  // namespace recollect::test
