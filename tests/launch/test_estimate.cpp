// The second promise: what is predicted without ranks is what the ranks of a run find, to the byte; and bytes
// and operations equal what can be computed by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "checkpointing/device_file.h"
#include "engine/io/json.h"
#include "launch/cli/explain.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::estimate_test {
namespace {

// Odd sizes: 5 layers, heads of 5, vocabulary 37.
const char* const kOddYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 4, n_inner: 36}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 2, seed: 3}
data: {format: random, sequence_length: 8}
)";

const char* const kGpt2 = RECOLLECT_SOURCE_DIR "/configs/gpt2-124m.yaml";

Config planned(Config config) {
  resolve_planned_world(config);
  return config;
}

struct Case {
  int tensor;
  std::string precision;
  std::vector<std::string> words;
};

class Predicted : public ::testing::TestWithParam<Case> {};

TEST_P(Predicted, IsWhatEveryRankMeasures) {
  std::vector<std::string> words = GetParam().words;
  words.push_back("parallelism.tensor_parallel_size=" + std::to_string(GetParam().tensor));
  if (std::none_of(words.begin(), words.end(),
                   [](const auto& w) { return w.starts_with("parallelism.ranks_per"); }))
    words.push_back("parallelism.ranks_per_process=" + std::to_string(GetParam().tensor));
  words.push_back("training.precision=" + GetParam().precision);
  const Estimate e = estimate(planned(read_config_text("test.yaml", kOddYaml, words)));
  const Trained run = train(kOddYaml, words);
  ASSERT_EQ(run.measured.size(), static_cast<std::size_t>(e.ranks));
  for (const MemoryLedger& measured : run.measured) EXPECT_EQ(e.memory, measured);
  ASSERT_EQ(e.communication_buffers.size(), 1u);  // no launcher has a say
  for (uint64_t bytes : run.communication_buffers) EXPECT_EQ(e.communication_buffers[0].bytes, bytes);
}

// As users count them. With bf16 vectors have four bytes and no master copy; ZeRO divides over two data ranks, up to the padding
// of buckets.
TEST(BytesOfAParameter, AreThoseOfTextbooks) {
  struct Counted {
    Words words;
    double weights, masters, gradients, states;
  };
  const std::string two = "parallelism.data_parallel_size=2", stage = "parallelism.zero_stage=";
  const Counted counted[] = {
      {{"training.precision=fp32"}, 4, 0, 4, 8},
      {{"training.precision=bf16"}, 2, 4, 4, 8},
      {{"training.precision=bf16", "optimizer.name=sgd"}, 2, 4, 4, 4},
      {{"training.precision=bf16", two, stage + "1"}, 2, 2, 4, 4},
      {{"training.precision=bf16", two, stage + "2"}, 2, 2, 2, 4},
      {{"training.precision=bf16", two, stage + "3"}, 1, 2, 2, 4},
  };
  for (const Counted& c : counted) {
    SCOPED_TRACE(c.words.back());
    const Words large = {"model.n_embd=128", "model.n_inner=512", "model.vocab_size=2048"};
    const Estimate e = estimate(planned(read_config_text("test.yaml", kOddYaml, large + c.words)));
    const double padding = c.words.front() == "training.precision=fp32" ? 1e-12 : 0.05;
    EXPECT_NEAR(e.parameters.weights, c.weights, padding);
    EXPECT_NEAR(e.parameters.masters, c.masters, padding);
    EXPECT_NEAR(e.parameters.gradients, c.gradients, padding);
    EXPECT_NEAR(e.parameters.states, c.states, padding);
  }
}

std::vector<Case> cases() {
  const std::string partition = ac("partition_activations=true"), host = ac("cpu_checkpointing=true"),
                    disk = ac("disk_checkpointing.path=" + std::filesystem::temp_directory_path().string()),
                    packed = ac("storage_dtype=bf16");
  const auto mode = [](const std::string& name) { return ac("mode=" + name); };
  return {{1, "fp32", {}},
          {1, "bf16", {mode("full")}},
          {1, "fp32", {mode("sqrt"), host}},
          {1, "fp32", {"device.threads=3", mode("selective"), "training.gradient_accumulation_steps=2"}},
          {2, "fp32", {}},
          {2, "bf16", {mode("full"), partition}},
          {2, "fp32", {mode("full"), host}},
          {2, "bf16", {mode("every_k"), ac("k=2"), partition, host}},
          {2, "fp32", {mode("recursive"), partition}},
          {2, "bf16", {mode("full"), "parallelism.sequence_parallel=true", host}},
          {2, "fp32", {mode("full"), "parallelism.data_parallel_size=2", "parallelism.ranks_per_process=4"}},
          {4, "fp32", {mode("full"), partition, host}},
          {4, "bf16", {mode("none"), partition, host}},
          {4, "fp32", {mode("constant_memory"), host}},
          {4, "bf16", {mode("selective"), ac("recompute=[attention, mlp]"), partition}},
          {4, "fp32", {mode("full"), partition, host, ac("contiguous_checkpointing=false")}},
          {1, "fp32", {mode("none"), disk}},
          {1, "bf16", {mode("full"), host, disk}},
          {2, "fp32", {mode("selective"), partition, disk}},
          {2, "bf16", {mode("full"), "parallelism.sequence_parallel=true", host, disk}},
          {4, "fp32", {mode("none"), partition, host, disk, ac("contiguous_checkpointing=false")}},
          {1, "fp32", {mode("full"), packed}},
          {2, "fp32", {mode("none"), partition, packed, ac("contiguous_checkpointing=false")}},
          {2, "fp32", {mode("recursive"), partition, host, disk, packed}},
          {2, "bf16", {mode("none"), partition, host, ac("storage_dtype=e4m3")}},
          {1, "fp32", {mode("selective"), ac("storage_dtype=e5m2"), ac("contiguous_checkpointing=false")}}};
}

INSTANTIATE_TEST_SUITE_P(All, Predicted, ::testing::ValuesIn(cases()));

// By hand, for one layer of T tokens: what backward reads and what leads to it, which leaves out the second
// product of the MLP and the residual behind it.
double layer_flops(double samples, double s, double h, double t) {
  const double tokens = samples * s, inner = 4 * h;
  const double products = 2 * tokens * h * (3 * h + h + inner) / t;
  const double attention = 2 * samples * (h / t) * s * (s + 1);
  const double norms = 2 * 8 * tokens * h, gelu = 12 * tokens * inner / t, residual = 3 * tokens * h;
  const double sum_over_ranks = tokens * h * (t - 1) / t;
  return products + attention + norms + gelu + residual + sum_over_ranks;
}

TEST(Counting, RecomputedFlopsAreThoseComputedByHand) {
  for (int tensor : {1, 4}) {
    const std::vector<std::string> words = {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
                                            "data.sequence_length=128", "training.micro_batch_size=2"};
    const auto recomputed = [&](const std::string& mode) {
      std::vector<std::string> more = words;
      more.push_back(ac("mode=" + mode));
      return estimate(planned(read_config(kGpt2, more)), Ranks::kFirst).recomputed_flops;
    };
    EXPECT_EQ(recomputed("none"), 0);
    EXPECT_DOUBLE_EQ(recomputed("full"), 12 * layer_flops(2, 128, 768, tensor)) << tensor;
  }
}

// Values that exist between the last op of forward and the first of backward.
std::vector<ValueId> live_at_boundary(const Program& program) {
  const Graph& graph = program.graph;
  const std::vector<Span> spans = op_spans(graph, program.schedule);
  OpId first = 0;
  while (graph.op(first).phase != Phase::kBackward || graph.op(first).stream != StreamId::kCompute) ++first;
  const int64_t boundary = 2 * static_cast<int64_t>(first) - 1;
  std::vector<Span> lives(graph.values().size(), {kForever, -1});
  for (OpId id : graph.op_ids())
    for (const auto* list : {&graph.op(id).inputs, &graph.op(id).outputs})
      for (ValueId v : *list) {
        if (v == kNone) continue;
        lives[v].begin = std::min(lives[v].begin, spans[id].begin);
        lives[v].end = std::max(lives[v].end, spans[id].end);
      }
  std::vector<ValueId> live;
  for (ValueId v = 0; v < static_cast<ValueId>(lives.size()); ++v)
    if (!graph.value(v).persistent && lives[v].begin <= boundary && lives[v].end >= boundary)
      live.push_back(v);
  return live;
}

struct Kept {
  // Bytes of layer inputs at the boundary: on the device, in host memory and on the disk.
  uint64_t whole = 0, packed = 0, parts = 0, host = 0, disk = 0;
};

Kept kept_inputs(const std::vector<std::string>& words, const std::string& precision = "bf16") {
  std::vector<std::string> all = {"parallelism.tensor_parallel_size=4", "data.sequence_length=128",
                                  "training.micro_batch_size=8", "training.precision=" + precision,
                                  ac("mode=full")};
  all.insert(all.end(), words.begin(), words.end());
  const PlannedTraining training = plan_training(planned(read_config(kGpt2, all)), 0, 0);
  const Graph& graph = training.training.program.graph;
  Kept kept;
  const SavedActivations saved(graph);
  for (ValueId input : saved.layer_inputs())
    for (ValueId v : live_at_boundary(training.training.program)) {
      const std::string &name = graph.value(v).name, &of = graph.value(input).name;
      if (name == of) kept.whole += graph.value(v).bytes();
      if (name == "kept/" + of) kept.parts += graph.value(v).bytes();
      if (name == "packed/" + of || name == "packed/" + of + "/rows") kept.packed += graph.value(v).bytes();
      if (name == "host/" + of) kept.host += graph.value(v).bytes();
      if (name == "disk/" + of) kept.disk += graph.value(v).bytes();
    }
  return kept;
}

TEST(Counting, KeptBytesAreTheClosedFormulas) {
  constexpr uint64_t kOne = 2 * 128 * 8 * 768;  // 2 s b h
  constexpr uint64_t kAway = 11;                // all layers but the last, whose input is needed at once
  const std::string partition = ac("partition_activations=true"), host = ac("cpu_checkpointing=true");
  const Kept full = kept_inputs({});
  EXPECT_EQ(full.whole, 12 * kOne);
  EXPECT_EQ(full.parts + full.host, 0u);
  const Kept divided = kept_inputs({partition});
  EXPECT_EQ(divided.whole, kOne);
  EXPECT_EQ(divided.parts, kAway * kOne / 4);
  const Kept away = kept_inputs({host});
  EXPECT_EQ(away.whole, kOne);
  EXPECT_EQ(away.host, kAway * kOne);
  const Kept both = kept_inputs({partition, host});
  EXPECT_EQ(both.whole, kOne);
  EXPECT_EQ(both.parts, 0u);
  EXPECT_EQ(both.host, kAway * kOne / 4);
  const Kept packed = kept_inputs({ac("storage_dtype=bf16")}, "fp32");
  EXPECT_EQ(packed.whole, 2 * kOne);  // of the last layer only, and of four bytes
  EXPECT_EQ(packed.packed, kAway * kOne);
  const Kept codes = kept_inputs({ac("storage_dtype=e4m3")});
  EXPECT_EQ(codes.whole, kOne);
  EXPECT_EQ(codes.packed, kAway * kOne / 2);
  const std::string disk = ac("disk_checkpointing.path=/nowhere");
  for (const auto& words : {std::vector{disk}, {disk, host}}) {
    const Kept away = kept_inputs(words);
    const bool buffered = words.size() > 1;
    EXPECT_EQ(away.whole, kOne);
    EXPECT_EQ(away.host, buffered ? 2 * kOne : 0u);  // the last two to leave
    EXPECT_EQ(away.disk, (buffered ? kAway - 2 : kAway) * kOne);
  }
  const Kept all = kept_inputs({disk, partition});
  EXPECT_EQ(all.whole, kOne);
  EXPECT_EQ(all.disk, kAway * kOne / 4);
}

TEST(Counting, HostMemoryBeforeTheDiskHoldsAFewLayers) {
  const auto host_bytes = [](int layers, bool disk) {
    std::vector<std::string> words = {"model.n_layer=" + std::to_string(layers), ac("cpu_checkpointing=true"),
                                      ac("keep_last=1"), ac("prefetch=1")};
    if (disk) words.push_back(ac("disk_checkpointing.path=/nowhere"));
    return plan_training(planned(read_config_text("test.yaml", kOddYaml, words)), 0, 0)
        .training.program.predicted()
        .host_bytes;
  };
  const uint64_t layer = host_bytes(12, false) - host_bytes(11, false);
  EXPECT_EQ(host_bytes(40, true), host_bytes(12, true));
  EXPECT_LE(host_bytes(12, true), DiskStore::kRingBytes + 5 * layer);
}

TEST(Estimate, OfGpt2AtTensorDegreeFourTakesNoTime) {
  const Config config =
      planned(read_config(kGpt2, {"parallelism.tensor_parallel_size=4", "data.sequence_length=128",
                                  "training.micro_batch_size=8"}));
  const std::clock_t begin = std::clock();
  const std::vector<Variant> variants = compare_variants(config);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(variants.size(), 4u * kNamedModes.size());
  EXPECT_LT(seconds / static_cast<double>(variants.size()), 2);
  for (std::size_t i = 1; i < variants.size(); ++i)
    EXPECT_LE(variants[i - 1].estimate.simulation.step_seconds, variants[i].estimate.simulation.step_seconds);
}

TEST(Estimate, ComparisonPutsWhatFitsFirstAndLeavesOutWhatHasNoEffect) {
  Config config = planned(read_config(kGpt2, {}));
  const std::vector<Variant> all = compare_variants(config);
  for (const Variant& v : all) EXPECT_FALSE(v.partition);
  uint64_t smallest = ~uint64_t{0}, largest = 0;
  for (const Variant& v : all) {
    smallest = std::min(smallest, v.estimate.memory.arena_bytes());
    largest = std::max(largest, v.estimate.memory.arena_bytes());
  }
  ASSERT_LT(smallest, largest);
  config.device.memory_limit = static_cast<int64_t>((smallest + largest) / 2);
  const std::vector<Variant> some = compare_variants(config);
  ASSERT_EQ(some.size(), all.size());
  EXPECT_TRUE(some.front().fits);
  EXPECT_FALSE(some.back().fits);
  EXPECT_TRUE(std::is_partitioned(some.begin(), some.end(), [](const Variant& v) { return v.fits; }));
}

TEST(Explain, HasALineForEveryOpAndNamesWhatItWaitsFor) {
  const PlannedTraining training =
      plan_training(planned(read_config_text(
                        "test.yaml", kOddYaml,
                        {ac("mode=full"), ac("cpu_checkpointing=true"), ac("disk_checkpointing.path=/x")})),
                    0, 0);
  const std::string text = schedule_text(training.training.program);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<int64_t>(training.training.program.graph.ops().size()) + 1);
  for (const char* line :
       {"host/layer0/mlp/residual copy_to_host | waits for layer0/mlp/residual",
        "disk           disk/layer0/mlp/residual write_to_disk | waits for host/layer0/mlp/residual | "
        "disk/layer0/mlp/residual disk 4096+1280",
        "read_from_disk (to=host) | waits for "})
    EXPECT_NE(text.find(line), std::string::npos) << line << '\n' << text;
}

class EstimateCommand : public ::testing::Test {
 protected:
  EstimateCommand() { place_.folder().write("odd.yaml", kOddYaml); }
  Workplace place_;
};

TEST_F(EstimateCommand, PrintsBeforeItRefusesWhatDoesNotFit) {
  const Finished refused = place_.recollect({"estimate", "odd.yaml", "device.memory_limit=65536"});
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_NE(refused.out.find("activations"), std::string::npos) << refused.out;
  EXPECT_NE(refused.err.find("device.memory_limit is 65536"), std::string::npos) << refused.err;
}

TEST_F(EstimateCommand, SaysTheSameInJsonBytes) {
  const Finished done = place_.recollect(
      {"estimate", "odd.yaml", "--json", ac("mode=full"), "parallelism.tensor_parallel_size=2"});
  ASSERT_EQ(done.status, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  const Estimate e = estimate(planned(
      read_config_text("test.yaml", kOddYaml, {ac("mode=full"), "parallelism.tensor_parallel_size=2"})));
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["memory"]["arena"], e.memory.arena_bytes());
  EXPECT_EQ(json["memory"]["backward"]["activations"],
            e.memory.at_peak[1][static_cast<int>(Category::kActivation)]);
  EXPECT_EQ(json["per_micro_batch"]["recomputed_flops"], e.recomputed_flops);
  EXPECT_EQ(json["none"]["per_micro_batch"]["recomputed_flops"], 0);
}

TEST_F(EstimateCommand, SaysWhatWasChosenAndWhatDoesNothing) {
  const Words words = {"odd.yaml", ac("mode=full"), ac("cpu_checkpointing=true"), ac("prefetch=9")};
  const Finished text = place_.recollect(Words{"estimate"} + words),
                 json = place_.recollect(Words{"estimate", "--json"} + words),
                 explained = place_.recollect(Words{"explain"} + words);
  for (const char* line :
       {"keep_last: 1 (simulated)\n", "prefetch: 9 (given)\n", "prefetch: is no earlier than 5 would be\n"}) {
    EXPECT_NE(text.out.find(std::string("\n") + line), std::string::npos) << text.out << text.err;
    EXPECT_NE(explained.out.find(std::string("# ") + line), std::string::npos) << explained.err;
  }
  ASSERT_EQ(json.status, 0) << json.err;
  const auto said = nlohmann::json::parse(json.out);
  EXPECT_EQ(said["keep_last"]["layers"], 1);
  EXPECT_EQ(said["keep_last"]["reason"], "simulated");
  EXPECT_EQ(said["prefetch"]["reason"], "given");
  EXPECT_EQ(said["remarks"][0], "prefetch: is no earlier than 5 would be");
  EXPECT_FALSE(said["none"].contains("keep_last"));
}

TEST_F(EstimateCommand, ReadsWhatCalibrateWrote) {
  const Words quickly = {"calibrate", "--seconds", "0.1", "--threads", "1"};
  const Finished measured = place_.recollect(quickly + Words{"--disk", ".", "--out", "device.yaml"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_TRUE(measured.out.starts_with("wrote device.yaml\n")) << measured.out;
  for (const char* line : {" rounds: rates differ by ", "\nnot measured: collectives between processes "})
    EXPECT_NE(measured.out.find(line), std::string::npos) << measured.out;
  EXPECT_EQ(measured.out.find("the disk"), std::string::npos) << measured.out;
  EXPECT_EQ(place_.folder().count(), 5u) << "two outputs, a device file and two configurations";
  DeviceModel device = read_device_model(place_.file("device.yaml"));
  EXPECT_GT(device.gemm_f32, 1e8);
  EXPECT_GT(device.memory_bandwidth, 1e8);
  EXPECT_GT(device.disk_write_bandwidth, 1e6);
  EXPECT_GT(device.disk_read_bandwidth, 1e6);
  EXPECT_EQ(device.threads, 1);
  for (const char* kernel :
       {"linear f32", "linear_backward_weight f32", "attention_backward f32", "adamw f32", "layer_norm f32",
        "lm_head_loss f32", "bias_dropout_add f32 dropout"})
    EXPECT_TRUE(device.kernels.contains(kernel)) << kernel;
  for (const RateCurve* curve :
       {&device.memory_levels, &device.collectives, &device.copies, &device.disk_writes})
    EXPECT_GT(curve->size(), 1u);
  const Words disk = {"estimate", "odd.yaml", ac("disk_checkpointing.path=."), ac("mode=full")};
  const Finished seeing = place_.recollect(disk + Words{"device.model=device.yaml"});
  EXPECT_EQ(seeing.status, 0) << seeing.err;
  EXPECT_NE(seeing.out.find("MiB to the disk"), std::string::npos) << seeing.out;
  EXPECT_NE(seeing.out.find("rates: device.yaml, measured with 1 threads on "), std::string::npos)
      << seeing.out;
  const Finished two = place_.recollect(
      {"estimate", "odd.yaml", "device.model=device.yaml", "parallelism.tensor_parallel_size=2"});
  EXPECT_NE(two.out.find(", 2 ranks share the cores\n"), std::string::npos)
      << "collectives go by the link: " << two.out;
  device.disk_write_bandwidth = device.disk_read_bandwidth = 0;
  place_.folder().write("without.yaml", to_yaml(device));
  const Finished blind = place_.recollect(disk + Words{"device.model=without.yaml"});
  EXPECT_EQ(blind.status, 2);
  EXPECT_NE(blind.err.find("calibrate --disk FOLDER"), std::string::npos) << blind.err;
  const Finished all = place_.recollect({"estimate", "odd.yaml", "device.model=device.yaml", "--compare"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_NE(all.out.find("recursive"), std::string::npos) << all.out;
  EXPECT_EQ(place_.recollect(quickly + Words{"--out", "device.yaml"}).status, 0) << "rates replace rates";
  for (const Words& words : {Words{"--threads", "0"}, Words{"--threads", "1,x"}, Words{"--threads", "1,"},
                             Words{"--threads", "100000"}, Words{"--seconds", "0"}}) {
    const Finished refused = place_.recollect(Words{"calibrate"} + words);
    EXPECT_EQ(refused.status, 2) << words[1];
    EXPECT_NE(refused.err.find(words[0]), std::string::npos) << refused.err;
  }
}

TEST_F(EstimateCommand, SaysThatAPresetIsNoMeasurement) {
  const Finished done = place_.recollect({"estimate", "odd.yaml"});
  EXPECT_NE(done.out.find("rates: cpu, a preset: an order of magnitude, not this machine"), std::string::npos)
      << done.out;
  EXPECT_NE(done.out.find("a rank has 1 thread\n"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("step: not predicted in seconds"), std::string::npos) << done.out;
  const Finished gpu = place_.recollect({"estimate", "odd.yaml", "device.model=h200"});
  EXPECT_NE(gpu.out.find(" by the preset h200, of which "), std::string::npos) << gpu.out;
}

TEST_F(EstimateCommand, ComparesTheDiskWhereItHasAPath) {
  const Words compare = {"estimate", "odd.yaml", "--compare"};
  const Finished without = place_.recollect(compare),
                 with = place_.recollect(compare + Words{ac("disk_checkpointing.path=/nowhere"),
                                                         ac("disk_checkpointing.limit=64KiB")});
  EXPECT_EQ(without.out.find("disk"), std::string::npos) << without.out;
  EXPECT_NE(with.out.find("disk MiB"), std::string::npos) << with.out;
  EXPECT_NE(with.out.find("over a limit"), std::string::npos) << with.out;
}

TEST_F(EstimateCommand, TheLargestMicroBatchTrainsAndTheNextIsRefused) {
  const Words small{RECOLLECT_SOURCE_DIR "/examples/memory_methods/memory_methods.yaml",
                    "model.num_hidden_layers=3",
                    "model.hidden_size=32",
                    "model.num_attention_heads=2",
                    "model.intermediate_size=64",
                    "model.vocab_size=600",
                    "data.high=600",
                    "data.sequence_length=16",
                    "device.threads=1",
                    "device.memory_limit=2MiB",
                    ac("mode=full")};
  const Finished asked = place_.recollect(Words{"estimate"} + small + Words{"--max-micro-batch", "--json"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  const int64_t largest = nlohmann::json::parse(asked.out).at("micro_batch_size");
  ASSERT_GT(largest, 4);
  const auto train = [&](int64_t micro_batch) {
    return place_.recollect(Words{"train"} + small +
                            Words{"training.max_steps=1", "output_dir=out",
                                  "training.micro_batch_size=" + std::to_string(micro_batch)});
  };
  const Finished fits = train(largest), beyond = train(largest + 1);
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_EQ(beyond.status, 4) << beyond.out;
}

TEST_F(EstimateCommand, TakesWhatTheMachineHasWhereAPlanNeedsABudget) {
  for (const char* mode : {"mode=auto", "mode=dtr"}) {
    const Finished automatic = place_.recollect({"estimate", "odd.yaml", "--json", ac(mode)});
    EXPECT_EQ(automatic.status, 0) << automatic.err;
    EXPECT_NE(automatic.err.find("activation_checkpointing.memory_budget is "), std::string::npos)
        << automatic.err;
    EXPECT_NE(automatic.err.find(" GiB: nine tenths of this machine's "), std::string::npos) << automatic.err;
  }
  EXPECT_EQ(place_.recollect({"estimate", "odd.yaml", ac("mode=auto"), ac("memory_budget=0")}).status, 2);
}

TEST_F(EstimateCommand, RefusesContradictions) {
  for (const Words& words :
       {Words{"--compare", "--max-micro-batch", "device.memory_limit=1MiB"},
        Words{"--max-layers", "--max-sequence-length", "device.memory_limit=1MiB"}, Words{"--policies"},
        Words{"--pareto", "training.max_steps=0", "evaluation.every_steps=1", "evaluation.batches=1"},
        Words{"device.model=abacus"}, Words{ac("partition_activations=true")}}) {
    const Finished refused = place_.recollect(Words{"estimate", "odd.yaml"} + words);
    EXPECT_EQ(refused.status, 2) << words.front() << refused.out;
  }
}

}  // namespace
}  // namespace recollect::test::estimate_test
