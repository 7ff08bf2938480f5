#include "launch/program/state_remarks.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/program/units.h"
#include "parallel/lora.h"
#include "parallel/optimizers/eight_bit.h"

namespace recollect {

namespace {

double mib_of(uint64_t bytes) { return static_cast<double>(bytes) / kMiB.bytes; }

bool has_blocks(const Parameter& p) {
  return std::any_of(p.states.begin(), p.states.end(),
                     [](const Parameter::State& state) { return state.of == StateOf::kBlocks; });
}

// The bytes that this rank's 8-bit states save: their size in 32 bits minus their size with block scales.
uint64_t spared_bytes(const Graph& graph, const Parameter& p) {
  uint64_t wide = 0, held = 0;
  for (const Parameter::State& state : p.states) {
    const uint64_t bytes = graph.value(state.value).bytes();
    held += bytes;
    if (state.of == StateOf::kElements) wide += 4 * bytes;
  }
  return wide > held ? wide - held : 0;
}

// "3.3 %", "0.032 %".
std::string percent_text(int64_t part, int64_t whole) {
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 1 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.1f} %", percent);
}

}  // namespace

void remark_on_frozen(TrainingProgram& training) {
  const std::vector<Parameter>& tensors = training.model.parameters;
  int64_t trained = 0, trained_tensors = 0, all = 0;
  for (const Parameter& p : tensors) {
    const int64_t elements = p.rows * p.columns;
    all += elements;
    if (p.frozen) continue;
    trained += elements;
    ++trained_tensors;
  }
  if (trained_tensors == static_cast<int64_t>(tensors.size())) return;
  training.remarks.push_back({has_adapters(tensors) ? "lora" : "optimizer.groups",
                              fmt::format("trainable {} of {} parameters ({}), in {} of {} tensors", trained,
                                          all, percent_text(trained, all), trained_tensors, tensors.size())});
}

void remark_on_states(const Config& config, const Graph& graph, TrainingProgram& training) {
  int64_t trained = 0, quantised = 0, rounded = 0;
  uint64_t spared = 0, masters = 0;
  for (const Parameter& p : training.model.parameters) {
    if (p.gradient == kNone) continue;
    ++trained;
    if (has_blocks(p)) ++quantised, spared += spared_bytes(graph, p);
    if (p.master != p.value || graph.value(p.value).dtype != DType::kBF16) continue;
    ++rounded;
    masters += 2 * graph.value(p.value_part != kNone ? p.value_part : p.value).bytes();
  }
  if (config.optimizer.name.ends_with("8bit"))
    training.remarks.push_back(
        {"optimizer.name",
         fmt::format(
             "states of {} of {} trained parameters have 8 bits an element, {:.2f} MiB less than in 32; "
             "those of vectors, and of matrices of less than {} elements, stay in 32",
             quantised, trained, mib_of(spared), kLeastQuantised)});
  if (config.training.master_dtype == MasterDType::kBF16)
    training.remarks.push_back(
        {"master_dtype", fmt::format("{} of {} trained parameters are their own master copies, {:.2f} MiB "
                                     "less than copies in fp32",
                                     rounded, trained, mib_of(masters))});
}

void remark_on_weight_codes(const Config& config, const Graph& graph, TrainingProgram& training) {
  const auto remark = [&](RunWhen when, const std::string& how) {
    int64_t weights = 0;
    uint64_t bytes = 0;
    for (const Op& op : graph.ops()) {
      if (op.when != when) continue;
      ++weights;
      for (const ValueId codes : op.outputs) bytes += graph.room_of(codes);
    }
    if (weights > 0)
      training.remarks.push_back(
          {"fp8_weight_cache", fmt::format("FP8 numbers of {} weights, {:.2f} MiB, are made once {}", weights,
                                           mib_of(bytes), how)});
  };
  remark(RunWhen::kOnce, "for all steps, since nothing trains the weights");
  remark(RunWhen::kFirstMicroBatch,
         fmt::format("for the {} micro-batches of a step", config.training.gradient_accumulation_steps));
}

}  // namespace recollect
