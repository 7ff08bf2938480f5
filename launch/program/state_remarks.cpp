#include "launch/program/state_remarks.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/program/units.h"
#include "parallel/optimizers/eight_bit.h"

namespace recollect {

namespace {

double mib_of(uint64_t bytes) { return static_cast<double>(bytes) / kMiB.bytes; }

bool has_blocks(const Parameter& p) {
  return std::any_of(p.states.begin(), p.states.end(),
                     [](const Parameter::State& state) { return state.of == StateOf::kBlocks; });
}

// Of this rank's states in 32 bits, less what those of one byte and the sizes of their blocks take.
uint64_t spared_bytes(const Graph& graph, const Parameter& p) {
  uint64_t wide = 0, held = 0;
  for (const Parameter::State& state : p.states) {
    const uint64_t bytes = graph.value(state.value).bytes();
    held += bytes;
    if (state.of == StateOf::kElements) wide += 4 * bytes;
  }
  return wide > held ? wide - held : 0;
}

}  // namespace

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
         fmt::format("states of {} of {} trained parameters are 8 bits a number, {:.2f} MiB less than in 32; "
                     "those of vectors, and of matrices of less than {} numbers, stay in 32",
                     quantised, trained, mib_of(spared), kLeastQuantised)});
  if (config.training.master_dtype == MasterDType::kBF16)
    training.remarks.push_back(
        {"master_dtype", fmt::format("{} of {} trained parameters are their own master copies, {:.2f} MiB "
                                     "less than copies in fp32",
                                     rounded, trained, mib_of(masters))});
}

}  // namespace recollect
