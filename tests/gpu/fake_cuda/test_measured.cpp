// Steps that a GPU has taken (tests/bench/gpu/measured.json), as the preset of that GPU predicts them. The programs are those
// of the CUDA backend, planned without a device.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "checkpointing/device_file.h"
#include "checkpointing/op_time.h"
#include "engine/io/json.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/doctor/measure_gpu.h"
#include "launch/program/estimate.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {
namespace {

using nlohmann::json;

// One step's ops of the compute stream: seconds are linear in the rates that the preset was fitted for.
struct Features {
  double flops = 0;  // of products, for 1 / gemm_bf16
  double ops = 0;    // for launch_overhead
  double known = 0;  // seconds of attention, and of passes over memory, at the preset's rates
  double at(double per_flop, double launch) const { return flops * per_flop + ops * launch + known; }
};

struct Row {
  std::string name;
  double measured = 0, predicted = 0;  // seconds
  bool fitted = false;                 // bf16, and nothing waits
  Features features;
};

Features features_of(const Graph& graph, const DeviceModel& device, double micro_batches) {
  Features sum;
  for (const Op& op : graph.ops()) {
    if (op.stream != StreamId::kCompute || op.def->names_alone) continue;
    const double times =
        op.phase == Phase::kOptimizer || op.when == RunWhen::kFirstMicroBatch ? 1 : micro_batches;
    const OpView view{graph, op};
    const double flops = op.def->unit == Unit::kGemm ? op.def->cost(view).flops : 0;
    sum.ops += times;
    sum.flops += times * flops;
    if (flops == 0) sum.known += times * (op_seconds(graph, op, device) - device.launch_overhead);
  }
  return sum;
}

std::vector<Row> rows_of(const json& table) {
  std::vector<Row> rows;
  for (const json& line : table.at("rows")) {
    Words words = line.at("words").get<Words>();
    const bool none_waits = std::none_of(words.begin(), words.end(), [](const std::string& word) {
      return word.find("cpu_checkpointing") != std::string::npos || word.find("fp") != std::string::npos ||
             word.find("gelu") != std::string::npos;
    });
    words.push_back("device.backend=cuda");
    Config config = read_config_text("row.yaml", line.at("config").get<std::string>(), words);
    resolve_planned_world(config);
    const PlannedTraining planned = plan_training(config, 0, 0);
    const Program& program = planned.training.program;
    const auto micro_batches = std::max<int64_t>(1, config.training.gradient_accumulation_steps);
    rows.push_back(
        {.name = line.at("name"),
         .measured = 1e-3 * line.at("step_ms").get<double>(),
         .predicted =
             simulate(program.graph, program.schedule, planned.training.device, micro_batches).step_seconds,
         .fitted = none_waits,
         .features =
             features_of(program.graph, planned.training.device, static_cast<double>(micro_batches))});
  }
  return rows;
}

// Least squares of relative errors for the two rates; the row numbered `without` is left out.
std::array<double, 2> fit(const std::vector<Row>& rows, int without) {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    if (!row.fitted || i == without) continue;
    const double a = row.features.flops / row.measured, b = row.features.ops / row.measured,
                 y = 1 - row.features.known / row.measured;
    aa += a * a, ab += a * b, bb += b * b, ay += a * y, by += b * y;
  }
  const double det = aa * bb - ab * ab;
  return {(ay * bb - by * ab) / det, (by * aa - ay * ab) / det};
}

class MeasuredRows : public FakeTraining {
 protected:
  void SetUp() override {
    restart({.memory = std::size_t{150} << 30, .pinned = std::size_t{150} << 30, .fused_attention = true});
  }
  const json table_ = json::parse(test::TemporaryFolder::read(RECOLLECT_MEASURED_ROWS));
};

// A row whose kernels are others by now says so, and that today's are faster.
TEST_F(MeasuredRows, ThePresetPredictsThem) {
  const std::vector<Row> rows = rows_of(table_);
  ASSERT_EQ(rows.size(), 14u);
  int replaced = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string what = fmt::format("{}: predicted {:.2f} ms, measured {:.2f} ms", row.name,
                                         1e3 * row.predicted, 1e3 * row.measured);
    if (table_.at("rows")[i].contains("since_replaced")) {
      ++replaced;
      EXPECT_LT(row.predicted, 0.9 * row.measured) << what;
      EXPECT_GT(row.predicted, 0.7 * row.measured) << what;
    } else {
      EXPECT_NEAR(row.predicted, row.measured, 0.1 * row.measured) << what;
    }
  }
  EXPECT_EQ(replaced, 1);
}

// Two rates are fitted, to seven rows. Each row is predicted within 5 % by those that the other six give, but
// BERT-large, the one whose step is many small ops: without it nothing tells what a launch takes.
TEST_F(MeasuredRows, ThePresetIsFittedToThem) {
  const std::vector<Row> rows = rows_of(table_);
  const DeviceModel preset = device_preset("h200");
  const std::array<double, 2> all = fit(rows, -1);
  EXPECT_NEAR(preset.gemm_bf16 * all[0], 1, 0.05) << fmt::format("fitted {:.0f} TFLOP/s", 1e-12 / all[0]);
  EXPECT_NEAR(preset.launch_overhead / all[1], 1, 0.15) << fmt::format("fitted {:.2f} us", 1e6 * all[1]);
  int left_out = 0;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    if (!row.fitted) continue;
    ++left_out;
    const std::array<double, 2> others = fit(rows, i);
    const double error = row.features.at(others[0], others[1]) / row.measured - 1;
    EXPECT_LT(std::abs(error), row.name.starts_with("BERT") ? 0.25 : 0.05)
        << fmt::format("{}: {:+.1f} % by {:.0f} TFLOP/s and {:.2f} us", row.name, 100 * error,
                       1e-12 / others[0], 1e6 * others[1]);
  }
  EXPECT_EQ(left_out, 7);
}

// On clocks that are known, calibration finds them: bytes of copies, the one kernel of a sum, and what no kernel is without.
TEST_F(FakeTraining, ACalibrationFindsTheDevicesClocks) {
  restart({.clocks = Clocks{.kernel = 3000, .copied = 0.5}});
  const GpuCalibration small{.steps = {.samples = {{1, 16, 2, 32, 1, 8, 0.0, 1}},
                                       .words = {"training.precision=bf16", "training.precision=fp32",
                                                 "training.precision=fp32 device.tf32=true"},
                                       .seconds = 0.01},
                             .bytes = 1 << 16,
                             .tiny_ops = 20};
  const GpuMeasurement measured = measure_gpu(small);
  const DeviceModel& device = measured.device;
  EXPECT_NEAR(device.to_host_bandwidth, 0.5e9, 0.01e9);
  EXPECT_NEAR(device.to_device_bandwidth, 0.5e9, 0.01e9);
  EXPECT_NEAR(measured.both_to_host, 0.5e9, 0.01e9) << "each way has a link of its own here";
  EXPECT_NEAR(device.memory_bandwidth, 3.0 * (1 << 16) / 3e-6, 0.01 * 3.0 * (1 << 16) / 3e-6);
  for (const char* kernel : {"linear bf16", "linear f32", "linear tf32", "attention f32", "layer_norm bf16",
                             "linear_backward_weight bf16", "attention_backward bf16"})
    EXPECT_TRUE(device.kernels.contains(kernel)) << kernel;
  EXPECT_NE(measured.remarks.find("copies both ways at once: 0.5 GB/s to the host"), std::string::npos)
      << measured.remarks;
  const test::TemporaryFolder folder;
  const DeviceModel read = read_device_model(folder.write("device.yaml", to_yaml(device)));
  EXPECT_EQ(read.kernels.size(), device.kernels.size());
  EXPECT_NE(describe(read).find("measured on a GPU"), std::string::npos);
  EXPECT_EQ(world().what_is_left(), "");
}

}  // namespace
}  // namespace recollect::fake_cuda
