#include "launch/program/memory_advice.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/byte_count.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

using Advice = std::vector<std::string>;

// Advises to use this stage of ZeRO, also if there is only one data rank so far.
void divide(const Config& config, int64_t stage, Advice& advice) {
  if (config.parallelism.zero_stage < stage)
    advice.push_back(
        fmt::format("parallelism.zero_stage: {}{}", stage,
                    config.parallelism.data_parallel_size > 1 ? "" : " over several data ranks"));
}

void train_less(const Config& config, Advice& advice) {
  if (config.lora.rank == 0 && !config.model.pretrained.empty())
    advice.emplace_back("lora.rank: 8 (adapters in place of all weights)");
}

void round_numbers(const Config& config, Advice& advice) {
  if (config.training.precision == Precision::kFP32 && config.device.backend != BackendKind::kReference)
    advice.emplace_back("training.precision: bf16");
}

void keep_fewer_states(const Config& config, Advice& advice) {
  const Config::Optimizer& o = config.optimizer;
  if (o.name == "adamw") advice.emplace_back("optimizer.name: adamw8bit");
  if (o.offload == OffloadTo::kNone && config.device.backend == BackendKind::kCuda)
    advice.emplace_back("optimizer.offload: host");
  if (o.offload == OffloadTo::kNone)
    advice.emplace_back("optimizer.offload: disk with optimizer.offload_path");
  divide(config, 1, advice);
  train_less(config, advice);
}

void save_less(const Config& config, Advice& advice) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const bool plans = c.mode == CheckpointingMode::kAuto || c.mode == CheckpointingMode::kDtr;
  if (config.training.max_steps == 0) return;
  if (c.mode == CheckpointingMode::kNone && c.plan.empty())
    advice.emplace_back(
        "activation_checkpointing.mode: full, or auto with activation_checkpointing.memory_budget");
  else if (!plans && c.mode != CheckpointingMode::kRecursive && c.mode != CheckpointingMode::kConstantMemory)
    advice.emplace_back("activation_checkpointing.mode: recursive");
  if (config.parallelism.tensor_parallel_size > 1 && !c.partition_activations && !plans &&
      !config.parallelism.sequence_parallel)
    advice.emplace_back("activation_checkpointing.partition_activations: true");
  if (config.device.backend == BackendKind::kCuda && !c.cpu_checkpointing && !plans)
    advice.emplace_back("activation_checkpointing.cpu_checkpointing: true");
  if (c.disk_checkpointing.path.empty())
    advice.emplace_back("activation_checkpointing.disk_checkpointing.path: FOLDER");
}

void take_fewer_tokens(const Config& config, Advice& advice) {
  if (config.training.micro_batch_size > 1)
    advice.push_back(fmt::format("training.micro_batch_size below {}", config.training.micro_batch_size));
  advice.push_back(fmt::format("data.sequence_length below {}", config.data.sequence_length));
}

}  // namespace

LargestCategory largest_category(const MemoryLedger& memory) {
  MemoryLedger::Row most{};
  for (const MemoryLedger::Row& row : memory.at_peak)
    if (MemoryLedger::sum(row) > MemoryLedger::sum(most)) most = row;
  const auto largest = std::max_element(most.begin(), most.end());
  return {static_cast<Category>(largest - most.begin()), *largest};
}

std::string most_of_it(const MemoryLedger& memory) {
  const LargestCategory most = largest_category(memory);
  return fmt::format("and most of it is {}, {}", name_of(most.category), byte_count(most.bytes));
}

std::string memory_advice(const Config& config, const MemoryLedger& memory) {
  Advice advice;
  switch (largest_category(memory).category) {
    case Category::kOptimizer:
      keep_fewer_states(config, advice);
      break;
    case Category::kGradient:
      divide(config, 2, advice);
      round_numbers(config, advice);
      train_less(config, advice);
      break;
    case Category::kParameter:
      round_numbers(config, advice);
      divide(config, 3, advice);
      break;
    case Category::kActivation:
      save_less(config, advice);
      take_fewer_tokens(config, advice);
      break;
    default:
      take_fewer_tokens(config, advice);
      save_less(config, advice);
      break;
  }
  advice.emplace_back("more tensor ranks (parallelism.tensor_parallel_size)");
  return fmt::format("what takes less of that: {}", fmt::join(advice, "; "));
}

std::optional<Error> machine_is_too_small(const Config& config, const MemoryLedger& memory, uint64_t needed,
                                          int ranks, std::optional<uint64_t> machine) {
  if (!machine || needed <= *machine) return std::nullopt;
  return Error(
      ExitCode::kDeviceMemory,
      fmt::format("the run needs {}{}, and this machine has {}; a rank's arena is {}, {}", bytes_text(needed),
                  ranks > 1 ? fmt::format(" for {} ranks", ranks) : "", bytes_text(*machine),
                  bytes_text(memory.arena_bytes()), most_of_it(memory)),
      memory_advice(config, memory) + "; `recollect estimate --compare` shows every mode of checkpointing");
}

}  // namespace recollect
