// What mode auto leaves untried it may leave: of every candidate, and of plans at random, the program takes no less than its
// bounds say, nor than what no plan is said to take less than; and the answer is the best of all candidates, each of which is
// made a program here.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include <fmt/format.h>

#include "checkpointing/collective_pieces.h"
#include "checkpointing/planner/any_plan.h"
#include "checkpointing/planner/auto.h"
#include "checkpointing/planner/plan_floor.h"
#include "checkpointing/planner/plan_front.h"
#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "tests/launch/planned.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::plan_bounds_test {
namespace {

const char* const kRun = R"(
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 8, max_steps: 2, seed: 5}
optimizer: {name: adamw, learning_rate: 1e-2}
data: {format: random, sequence_length: 16}
)";
const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 24, n_positions: 16, n_embd: 32, n_layer: 4, n_head: 4})";
const char* const kBert = R"(
task: question_answering
model: {type: bert, vocab_size: 24, hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 64, max_position_embeddings: 16})";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 24, hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 4,
        num_key_value_heads: 4, intermediate_size: 48, max_position_embeddings: 16})";

struct Taken {
  uint64_t device = 0, persistent = 0, host = 0, disk = 0;
  uint64_t alive = 0;  // at the peak of forward or backward, without gaps
  double seconds = 0, beside = 0;
};

Taken taken_by(const TrainingProgram& training) {
  const Program& program = training.program;
  Taken taken{.device = program.predicted().arena_bytes(),
              .persistent = program.predicted().persistent_bytes,
              .host = program.predicted().host_bytes,
              .disk = program.predicted().disk_bytes};
  for (const Phase phase : {Phase::kForward, Phase::kBackward})
    taken.alive = std::max(taken.alive,
                           MemoryLedger::sum(program.predicted().at_peak[static_cast<std::size_t>(phase)]));
  const Simulation step = simulate(program.graph, program.schedule, training.device, 1);
  taken.seconds = step.step_seconds;
  taken.beside = seconds_of_any_plan(program.graph, program.schedule, training.device, step);
  return taken;
}

// Milliseconds, as mode auto tells them; 0 where it knows none.
double lower_bound_of(const TrainingProgram& answer) {
  const std::string mark = "no plan takes less than ";
  for (const auto& [key, text] : answer.remarks)
    if (const auto at = text.find(mark); key == "mode auto" && at != std::string::npos)
      return std::stod(text.substr(at + mark.size()));
  return 0;
}

// Candidates, and the programs that they are.
class Planned {
 public:
  // Of the candidates every one whose number `step` divides, and so many plans at random.
  Planned(const std::string& yaml, const Words& words, const Residences& residences, std::size_t step = 1,
          int at_random = 0)
      : yaml_(yaml), words_(words), config_(planned(yaml, words)), rank_(config_, 0, 0) {
    if (residences.disk) words_.push_back(ac("disk_checkpointing.path=" + folder_.path()));
    const TrainingProgram none = rank_.require_plan(config_);
    all_ = taken_by(none);
    const ModelGraph built = build_training_graph(config_, rank_.mesh(), batch_shape(config_));
    std::map<std::string, uint64_t> by_name;
    for (OpId id : none.program.graph.op_ids())
      by_name[none.program.graph.op(id).name] = none.program.workspaces[id];
    std::vector<uint64_t> workspaces;
    for (const Op& op : built.graph.ops()) workspaces.push_back(by_name[op.name]);
    const DeviceModel device = device_of(config_);
    Graph bounded = built.graph;
    leave_open_what_overlaps(bounded, workspaces, built.pieces);
    const Surroundings of{.graph = bounded,
                          .saved = built.saved.value(),
                          .settings = config_.activation_checkpointing,
                          .device = device,
                          .residences = residences,
                          .storage = {.tensor_size = config_.parallelism.tensor_parallel_size,
                                      .halves = config_.parallelism.halves()}};
    const BoundMaker bounds(of.graph, of.saved, of.device, of.storage, workspaces);
    const PlanFloor floor(of.graph, of.saved, bounds, residences.partition);
    const auto add_plan = [&](const DraftPlan& plan) {
      add(bounds.of(plan), floor, to_yaml(plan_of(plan, of.graph, of.saved)));
      if (const std::optional<PlanBounds> closer = bounds.closer(plan)) {
        add(*closer, floor, to_yaml(plan_of(plan, of.graph, of.saved)));
        ++metered_;
      }
    };
    const std::vector<Candidate> found = list_candidates(of, bounds, PlanBudgets::kAny, PlanBudgets::kAny);
    for (std::size_t i = 0; i < found.size(); i += step) add_plan(found[i].plan);
    const std::vector<Candidate> front = plans_of_front(of, bounds, found);
    for (std::size_t i = 0; i < front.size(); i += step) add_plan(front[i].plan);
    std::mt19937 random(5);
    for (int i = 0; i < at_random; ++i) add_plan(random_plan(of, random));
  }

  struct Tried {
    PlanBounds bounds;
    std::optional<double> floor;  // where there is what the program takes, and no more
    Taken taken;
  };
  const std::vector<Tried>& tried() const { return tried_; }
  // Of these, by the meter: each comes after the same plan's other bounds.
  int metered() const { return metered_; }
  const Taken& all() const { return all_; }
  TrainingProgram within(uint64_t bytes, const Words& more) const {
    return rank_.plan(planned(yaml_, words_ + more + budget(bytes)));
  }

 private:
  // What is outside of layers, or read there, is saved, as in every candidate.
  static DraftPlan random_plan(const Surroundings& of, std::mt19937& random) {
    DraftPlan plan = save_everything(of);
    plan.replay = static_cast<Replay>(random() % 4);
    const unsigned share = random() % 5;  // from almost nothing to almost all
    for (std::size_t i = 0; i < plan.values.size(); ++i) {
      const Value& value = of.graph.value(of.saved.values()[i]);
      const bool read_outside = std::any_of(of.graph.ops().begin(), of.graph.ops().end(), [&](const Op& op) {
        return op.layer < 0 &&
               std::find(op.inputs.begin(), op.inputs.end(), of.saved.values()[i]) != op.inputs.end();
      });
      if (value.layer < 0 || read_outside) continue;
      Decision& d = plan.values[i];
      d.save = random() % 5 <= share;
      d.partition =
          d.save && of.residences.partition && random() % 2 && !value.placement.is_sharded_over(kTensorAxis);
      d.host = d.save && of.residences.host && random() % 2;
      d.disk = d.save && of.residences.disk && random() % 3 == 0;
    }
    return plan;
  }

  void add(const PlanBounds& bounds, const PlanFloor& floor, const std::string& text) {
    const auto [known, is_new] = known_.try_emplace(text);
    if (is_new) {
      const TrainingProgram training =
          rank_.plan(planned(yaml_, words_ + Words{ac("plan=" + folder_.write("plan.yaml", text))}));
      if (!training.checkpointed.refusal) known->second = taken_by(training);
    }
    const Taken& taken = known->second;
    if (taken.device == 0) return;
    tried_.push_back(
        {bounds, floor.seconds(taken.device - taken.persistent + taken.host + taken.disk), taken});
  }

  std::string yaml_;
  Words words_;
  Config config_;
  PlannedRank rank_;
  TemporaryFolder folder_;
  Taken all_;
  std::map<std::string, Taken> known_;
  std::vector<Tried> tried_;
  int metered_ = 0;
};

void expect_true(const Planned& planned) {
  ASSERT_GT(planned.tried().size(), 40u);
  for (const auto& [bounds, floor, taken] : planned.tried()) {
    const double seconds = taken.seconds - planned.all().beside;
    EXPECT_LE(bounds.device, taken.device - taken.persistent);
    EXPECT_LE(bounds.host, taken.host);
    EXPECT_LE(bounds.disk, taken.disk);
    EXPECT_LE(bounds.seconds, seconds * (1 + 1e-9));
    ASSERT_TRUE(floor) << "there is a plan, and no plan is said to be within its bytes";
    EXPECT_LE(*floor, seconds);
  }
}

void expect_true_and_close(const Planned& planned) {
  expect_true(planned);
  double least_bytes = 1e9, least_seconds = 1e9, least_floor = 1e9;
  for (const auto& [bounds, floor, taken] : planned.tried()) {
    const double seconds = taken.seconds - planned.all().beside;
    least_bytes = std::min(least_bytes, double(taken.device - taken.persistent) / double(bounds.device));
    least_seconds = std::min(least_seconds, seconds / bounds.seconds);
    least_floor = std::min(least_floor, seconds / *floor);
  }
  EXPECT_LT(least_bytes, 1.01) << "bounds that are wrong by more would not be noticed";
  EXPECT_LT(least_seconds, 1.01);
  EXPECT_LT(least_floor, 1.02);
}

// Whose gradients and parameters are on their way where no plan can hide them.
Words over_data(int zero_stage) {
  return {"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
          fmt::format("parallelism.zero_stage={}", zero_stage)};
}

// Halves of a batch that take turns.
Words halves_of_two() {
  return {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
          "parallelism.overlap_halves=true"};
}

struct Tested {
  const char* model;
  Words words;
  Residences residences;
};

// Plans that other searches found: a value's name, and for each layer "#" if it is saved. Recomputation
// begins in the middle of some layers, at other places in others; few layer inputs are saved, or none.
struct KnownPlan {
  const char *model, *replay;
  std::vector<std::pair<const char*, const char*>> saved;
};
const char* const kDeepBert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 1000, max_position_embeddings: 128, hidden_size: 32, num_hidden_layers: 24,
        num_attention_heads: 4, intermediate_size: 128, num_labels: 2})";
const char* const kWideBert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 1000, max_position_embeddings: 128, hidden_size: 128, num_hidden_layers: 12,
        num_attention_heads: 4, intermediate_size: 512, num_labels: 2, hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0})";
const char* const kShortRun = R"(
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 4, max_steps: 2}
optimizer: {name: sgd, learning_rate: 1e-2}
data: {format: random, sequence_length: 128}
)";

TEST(PlanBounds, AreAsGoodAsKnownPlans) {
  const TemporaryFolder folder;
  for (const KnownPlan& known : {KnownPlan{kDeepBert,
                                           "segment",
                                           {{"attn/core", "###.................####"},
                                            {"attn/core/lse", "###.................####"},
                                            {"attn/norm", ".......................#"},
                                            {"attn/norm/mean", ".......................#"},
                                            {"attn/norm/rstd", ".......................#"},
                                            {"attn/residual", ".....................###"},
                                            {"mlp/gelu", ".......................#"},
                                            {"mlp/norm", "......................#."},
                                            {"mlp/norm/mean", ".....................###"},
                                            {"mlp/norm/rstd", ".....................###"},
                                            {"mlp/residual", ".#.#################.###"}}},
                                 KnownPlan{kWideBert,
                                           "nothing",
                                           {{"attn/norm", "...........#"},
                                            {"attn/norm/mean", "...........#"},
                                            {"attn/norm/rstd", "...........#"},
                                            {"attn/residual", "......#####."},
                                            {"mlp/gelu", "...........#"},
                                            {"mlp/norm", "..........#."},
                                            {"mlp/norm/mean", "........####"},
                                            {"mlp/norm/rstd", "........####"},
                                            {"mlp/residual", "....##....##"}}}}) {
    std::string text = fmt::format("replay: {}\nvalues:\n  layer*: recompute\n", known.replay);
    for (const auto& [value, layers] : known.saved)
      for (std::size_t layer = 0; layers[layer]; ++layer)
        if (layers[layer] == '#') text += fmt::format("  layer{}/{}: device\n", layer, value);
    SCOPED_TRACE(text);
    const std::string yaml = std::string(known.model) + kShortRun;
    const Config config = planned(yaml, {ac("plan=" + folder.write("plan.yaml", text))});
    const PlannedRank rank(config, 0, 0);
    const Taken best = taken_by(rank.require_plan(config)),
                found = taken_by(rank.require_plan(planned(yaml, budget(best.device))));
    EXPECT_LE(found.device, best.device);
    EXPECT_LE(found.seconds, best.seconds);
  }
}

// Every answer is the best of all candidates that fit, and no faster than its own bound says.
TEST(PlanBounds, LoseNoAnswer) {
  for (const auto& [model, words, residences] :
       {Tested{kGpt2, {}, {}}, Tested{kBert, {}, {}}, Tested{kGpt2, {}, {.host = true}},
        Tested{kGpt2, over_data(3), {}}, Tested{kGpt2, halves_of_two(), {}},
        Tested{kLlama, halves_of_two(), {}}}) {  // whose table of positions both halves read
    SCOPED_TRACE(std::string(model) + (words.empty() ? "" : " " + words.back()) +
                 (residences.host ? " host" : ""));
    const Planned planned(std::string(model) + kRun, words, residences);
    const bool is_divided = !words.empty();  // bounds know nothing of what is gathered and reduced
    is_divided ? expect_true(planned) : expect_true_and_close(planned);
    const Words switches = residences.host ? Words{ac("cpu_checkpointing=true")} : Words{};
    int answers = 0, close = 0;  // close: to the bound
    for (int percent = 60; percent < 100; percent += 4) {
      const uint64_t budget = planned.all().device * percent / 100;
      std::tuple<double, uint64_t> best{1e9, 0};
      for (const auto& [bounds, floor, taken] : planned.tried())
        if (taken.device <= budget) best = std::min(best, {taken.seconds, taken.device});
      const TrainingProgram answer = planned.within(budget, switches);
      ASSERT_EQ(answer.checkpointed.refusal.has_value(), std::get<0>(best) == 1e9) << percent;
      if (answer.checkpointed.refusal) continue;
      const Taken taken = taken_by(answer);
      EXPECT_EQ(std::tuple(taken.seconds, taken.device), best) << percent;
      EXPECT_LE(taken.device, budget) << percent;
      const double below = lower_bound_of(answer);
      EXPECT_LE(below, 1e3 * taken.seconds + 1e-3) << percent;
      close += below > 0.97e3 * taken.seconds ? 1 : 0;
      ++answers;
    }
    EXPECT_GT(answers, 4);
    if (!residences.host && !is_divided) {  // of the host there is room for all
      EXPECT_GT(close, 2);
    }
  }
}

// A device whose memory has levels, as `recollect calibrate` writes them: caches that the tiny models here outgrow.
std::string device_with_levels(const TemporaryFolder& folder) {
  return "device.model=" + folder.write("device.yaml", R"(
version: 2
name: levels
gemm_f32: 1e+11
gemm_bf16: 1e+11
gemm_f64: 5e+10
attention_f32: 5e+10
attention_bf16: 5e+10
vector_flops: 5e+10
memory_bandwidth: 2e+11
link_bandwidth: 2e+9
link_latency: 1e-06
to_host_bandwidth: 5e+09
to_device_bandwidth: 5e+09
launch_overhead: 1e-07
memory_levels: {4096: 1e+11, 32768: 4e+10, 262144: 1e+10, 1048576: 1e+9}
)");
}

// There an op's time depends on what was touched before it: mode none need not be the fastest.
TEST(PlanBounds, LoseNoAnswerWhereMemoryHasLevels) {
  const TemporaryFolder folder;
  const Planned planned(std::string(kGpt2) + kRun, {device_with_levels(folder)}, {});
  expect_true(planned);
  double before = 1e9;
  for (int percent = 60; percent <= 110; percent += 10) {
    const uint64_t budget = planned.all().device * percent / 100;
    std::tuple<double, uint64_t> best{1e9, 0};
    if (planned.all().device <= budget) best = {planned.all().seconds, planned.all().device};
    for (const auto& [bounds, floor, taken] : planned.tried())
      if (taken.device <= budget) best = std::min(best, {taken.seconds, taken.device});
    const TrainingProgram answer = planned.within(budget, {});
    if (answer.checkpointed.refusal) continue;
    const Taken taken = taken_by(answer);
    EXPECT_LE(std::tuple(taken.seconds, taken.device), best) << percent;
    EXPECT_LE(taken.seconds, before) << percent;
    const double below = lower_bound_of(answer);
    EXPECT_LE(below, 1e3 * taken.seconds + 1e-3) << percent;
    EXPECT_GT(below, 0.6e3 * taken.seconds) << percent;
    before = taken.seconds;
  }
  EXPECT_LT(before, planned.all().seconds) << "mode none is the fastest here: nothing is tested";
}

// The meter says what programs take: their seconds, and their bytes but for the gaps of a layout.
TEST(PlanMeter, ReadsWhatProgramsTake) {
  for (const auto& [model, words] :
       {std::pair<const char*, Words>{kGpt2, {}}, {kBert, {}}, {kLlama, {"training.precision=bf16"}}}) {
    SCOPED_TRACE(model);
    const Planned planned(std::string(model) + kRun, words, {}, 40, 60);
    ASSERT_GT(planned.metered(), 60);
    int read = 0;
    const auto& tried = planned.tried();
    for (std::size_t i = 1; i < tried.size(); ++i) {
      const auto& [bounds, floor, taken] = tried[i];
      if (tried[i - 1].taken.seconds != taken.seconds || tried[i - 1].taken.device != taken.device) continue;
      const uint64_t alive = taken.alive - taken.persistent;
      EXPECT_NEAR(bounds.seconds, taken.seconds - planned.all().beside, 1e-9 * taken.seconds);
      EXPECT_LE(bounds.device, alive);
      EXPECT_GE(static_cast<double>(bounds.device), 0.99 * static_cast<double>(alive));
      ++read;
      ++i;
    }
    EXPECT_GT(read, 50);  // some plans have too many ops
  }
}

// Whatever a plan saves and wherever that waits.
TEST(PlanBounds, HoldForPlansAtRandom) {
  const TemporaryFolder folder;
  const Words two{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                  "parallelism.collective_pieces=0"};
  Words sequence = two;
  sequence.push_back("parallelism.sequence_parallel=true");
  for (const auto& [model, words, residences] :
       {Tested{kLlama, two, {.partition = true, .host = true}},
        Tested{kGpt2, {}, {.host = true, .disk = true}},
        Tested{kGpt2, {"training.precision=bf16", "model.resid_pdrop=0.1"}, {.disk = true}},
        Tested{kGpt2, sequence, {.host = true}}, Tested{kLlama, over_data(0), {.host = true}},
        Tested{kGpt2, over_data(2), {}}, Tested{kGpt2, over_data(3), {.host = true}},
        Tested{kLlama, halves_of_two(), {.partition = true, .host = true}},
        Tested{kGpt2, halves_of_two(), {.disk = true}}}) {
    SCOPED_TRACE(std::string(model) + (words.empty() ? "" : " " + words.back()));
    expect_true(Planned(std::string(model) + kRun, words, residences, 15, 50));
    Words levels = words;
    levels.push_back(device_with_levels(folder));
    expect_true(Planned(std::string(model) + kRun, levels, residences, 30, 50));
  }
}

}  // namespace
}  // namespace recollect::test::plan_bounds_test
