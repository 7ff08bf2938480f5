#include "launch/program/data_axis.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "checkpointing/choose.h"
#include "checkpointing/simulator.h"
#include "launch/program/units.h"
#include "parallel/gradient_reduction.h"
#include "parallel/parameter_gathers.h"

namespace recollect {

namespace {

constexpr const char* kAhead = "zero_stage gathers ahead";

double mib(uint64_t bytes) { return static_cast<double>(bytes) / kMiB.bytes; }

// The MiB that hold the gradients of all parameters. Larger buckets have no effect, because there is only
// one.
int64_t bucket_that_matters(const Graph& graph, const std::vector<Parameter>& parameters) {
  uint64_t bytes = 0;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) bytes += graph.value(p.gradient).bytes();
  return static_cast<int64_t>((bytes + (uint64_t{1} << 20) - 1) >> 20);
}

struct Gathered {
  Graph graph;
  GatheredParameters gathers;
  double seconds = 0;
};

Gathered gather(const Graph& graph, const Mesh& mesh, const TrainingProgram& training, int64_t ahead) {
  Gathered made{.graph = graph, .gathers = {}};
  made.gathers = gather_parameters(made.graph, *training.registry, training.model.parameters,
                                   {.data_size = mesh.data_size(), .ahead = ahead});
  made.seconds = simulate(made.graph, make_schedule(made.graph), training.device, 1).step_seconds;
  return made;
}

// Prefetches one layer more as long as that shortens the step by more than kLeastGain.
std::pair<int64_t, Gathered> gather_as_it_pays(const Graph& graph, const Mesh& mesh,
                                               const TrainingProgram& training, bool least) {
  int64_t ahead = 1;
  Gathered best = gather(graph, mesh, training, ahead);
  while (!least && ahead < kMostLayers) {
    Gathered more = gather(graph, mesh, training, ahead + 1);
    if (more.seconds > best.seconds * (1 - kLeastGain)) break;
    best = std::move(more);
    ++ahead;
  }
  return {ahead, std::move(best)};
}

void remark_on_division(const Graph& graph, const Mesh& mesh, const GatheredParameters& gathered,
                        TrainingProgram& training) {
  const Division d = division_of(graph, training.model.parameters, mesh.data_size());
  if (d.values == 0) return;
  training.remarks.push_back(
      {"zero_stage",
       fmt::format(
           "{} values are divided over {} data ranks, {:.2f} MiB less on each; {:.2f} MiB of parameters are "
           "gathered a {}",
           d.values, mesh.data_size(), mib(d.saved_bytes), mib(d.gathered_bytes + gathered.bytes),
           gathered.gathers > 0 ? "micro-batch" : "step")});
}

}  // namespace

void reduce_over_data(Graph& graph, const Config& config, const Mesh& mesh, TrainingProgram& training) {
  std::vector<Parameter>& parameters = training.model.parameters;
  const int64_t bucket = config.parallelism.gradient_bucket_mb,
                enough = bucket_that_matters(graph, parameters),
                same = std::max(enough, Config{}.parallelism.gradient_bucket_mb);
  reduce_gradients(graph, *training.registry, parameters,
                   {.data_size = mesh.data_size(),
                    .data_rank = mesh.data_rank(),
                    .zero_stage = static_cast<int>(config.parallelism.zero_stage),
                    .tensor_size = mesh.tensor_size(),
                    .repeats = mesh.repeats(),
                    .bucket_bytes = static_cast<uint64_t>(bucket) << 20});
  if (config.origins.contains("parallelism.gradient_bucket_mb") && bucket >= enough && bucket != same)
    training.remarks.push_back(
        {"gradient_bucket_mb", fmt::format("all gradients are one bucket, as with {}", same)});
}

void gather_over_data(Graph& graph, const Mesh& mesh, TrainingProgram& training, bool least) {
  const std::vector<Parameter>& parameters = training.model.parameters;
  GatheredParameters gathered;
  if (std::any_of(parameters.begin(), parameters.end(),
                  [](const Parameter& p) { return p.whole != kNone; })) {
    std::vector<Choice>& choices = training.checkpointed.choices;
    const auto decided = std::find_if(choices.begin(), choices.end(),
                                      [](const Choice& choice) { return choice.key == kAhead; });
    auto [ahead, made] = decided != choices.end()
                             ? std::pair(decided->layers, gather(graph, mesh, training, decided->layers))
                             : gather_as_it_pays(graph, mesh, training, least);
    if (decided == choices.end())
      choices.push_back({kAhead, ahead, least ? "device.memory_limit" : "simulated"});
    graph = std::move(made.graph);
    gathered = made.gathers;
  }
  remark_on_division(graph, mesh, gathered, training);
}

}  // namespace recollect
