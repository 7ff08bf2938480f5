#include "launch/program/largest_run.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "launch/config/validate.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "launch/program/limits.h"
#include "launch/program/task.h"

namespace recollect {

namespace {

constexpr int kStraightProbes = 12;  // before the search only bisects
constexpr int64_t kFewMore = 16;     // units within which every setting with an effect shows it

// The size that the search varies. One unit is the smallest amount that sequence parallelism and
// overlap_halves can divide.
struct Growth {
  int64_t unit = 1, given = 1, most = 1;
  std::string bound;                                            // the reason for `most`
  std::function<std::string(Config&, int64_t value)> set = {};  // returns the settings as text
};

// The unit of micro-batch size or length for which sequence parallelism can divide the tokens, given the
// other size.
int64_t divisible(const Config& config, int64_t other) {
  if (!config.parallelism.sequence_parallel) return 1;
  const int64_t parts = config.parallelism.tensor_parallel_size * config.parallelism.halves();
  return parts / std::gcd(parts, other);
}

Growth micro_batches(const Config& config) {
  const int64_t length = config.data.sequence_length;
  return {.unit = std::lcm(config.parallelism.halves(),
                           divisible(config, length * task_settings(config).choices)),
          .given = config.training.micro_batch_size,
          .most = std::max<int64_t>(1, kMostTokens / length),
          .bound = fmt::format("more than {} tokens in a micro-batch are not tried", kMostTokens),
          .set = [](Config& changed, int64_t value) {
            Config::Training& t = changed.training;
            t.micro_batch_size = value;
            const int64_t samples = value * std::max<int64_t>(1, t.gradient_accumulation_steps) *
                                    std::max<int64_t>(1, changed.parallelism.data_parallel_size);
            t.global_batch_size = 0;
            std::string settings = fmt::format("training.micro_batch_size={}", value);
            if (changed.origins.contains("training.global_batch_size"))
              settings += fmt::format(" training.global_batch_size={}", samples);
            return settings;
          }};
}

// Learned positions limit the length. Other positions have no parameters, and the model's longest length
// grows with the size.
Growth lengths(const Config& config) {
  const ModelFacts model = config.model.facts();
  const std::string key = "model." + model.longest.key;
  const int64_t samples = batch_shape(config).samples, tokens = std::max<int64_t>(1, kMostTokens / samples);
  const bool model_ends = !model.any_length && model.longest.value <= tokens;
  return {.unit = divisible(config, samples),
          .given = config.data.sequence_length,
          .most = model_ends ? model.longest.value : tokens,
          .bound = model_ends
                       ? fmt::format("{} {} allows no more", key, model.longest.value)
                       : fmt::format("more than {} tokens in a micro-batch are not tried", kMostTokens),
          .set = [key, model](Config& changed, int64_t value) {
            changed.data.sequence_length = value;
            std::string settings = fmt::format("data.sequence_length={}", value);
            if (value <= model.longest.value) return settings;
            changed.model.values.set(model.longest.key, value);
            return fmt::format("{} {}={}", settings, key, value);
          }};
}

Growth layers(const Config& config) {
  const ModelFact fact = config.model.facts().layers;
  return {.given = fact.value,
          .most = static_cast<int64_t>(kMostModelLayers),
          .bound = "a model has no more layers here",
          .set = [fact](Config& changed, int64_t value) {
            changed.model.values.set(fact.key, value);
            return fmt::format("model.{}={}", fact.key, value);
          }};
}

Growth growth_of(const Config& config, RunSize size) {
  switch (size) {
    case RunSize::kMicroBatch:
      return micro_batches(config);
    case RunSize::kSequenceLength:
      return lengths(config);
    case RunSize::kLayers:
      break;
  }
  return layers(config);
}

// If lengths vary, the number of different lengths is limited.
void stop_at_most_lengths(const Config& config, Growth& growth) {
  const auto too_many = [&](int64_t value) {
    Config changed = config;
    growth.set(changed, value);
    return number_of_lengths(changed) > most_lengths(changed);
  };
  if (!too_many(growth.most)) return;
  int64_t few = growth.given;
  while (growth.most - few > 1) {
    const int64_t middle = few + (growth.most - few) / 2;
    (too_many(middle) ? growth.most : few) = middle;
  }
  growth.most = few;
  growth.bound = fmt::format("data.pad_to_multiple_of {} allows no more", config.data.pad_to_multiple_of);
}

// Whether padding would have no effect; a run refuses this.
bool has_one_length(const Config& config) {
  return config.data.padding != Padding::kMax &&
         config.data.pad_to_multiple_of >= config.data.sequence_length;
}

// Whether the mode plans by a budget, so that it fits its plan to the memory.
bool plans(const CheckpointingSettings& c) {
  return static_cast<std::size_t>(c.mode) >= kNamedModes.size() &&
         (c.budget_policy == BudgetPolicy::kDynamic || c.budget_policy == BudgetPolicy::kStatic);
}

// Attention's workspace on a GPU follows from the limit, and not from a budget (attention_memory.h).
bool is_limit(uint64_t budget, const Config& config) {
  return config.device.backend != BackendKind::kCuda ||
         budget == static_cast<uint64_t>(config.device.memory_limit);
}

// Mode full, which mode auto tries too and which needs little memory: if it fits, some plan fits.
Config with_full(const Config& config) {
  Config full = config;
  CheckpointingSettings& c = full.activation_checkpointing;
  full.device.memory_limit = static_cast<int64_t>(budget_of(config));
  c = {.mode = CheckpointingMode::kFull,
       .partition_activations =
           config.parallelism.tensor_parallel_size > 1 && !config.parallelism.sequence_parallel};
  return full;
}

// The search; all counts are in units.
class Search {
 public:
  Search(const Config& config, const Growth& growth)
      : config_(config),
        unit_(growth.unit),
        given_(growth.given / growth.unit),
        most_(std::max<int64_t>(1, growth.most / growth.unit)),
        growth_(growth) {}

  int64_t smallest() const { return smallest_; }
  int64_t most() const { return most_; }

  // Returns 0 if even the smallest does not fit. `sure` is known to fit.
  int64_t largest(int64_t sure) {
    int64_t low = 0, high = most_ + 1;
    const auto probe = [&](int64_t units) { (fits(units) ? low : high) = units; };
    probe(std::min(given_, most_));
    if (sure > low && sure < high) low = sure;
    const bool is_line = !plans(config_.activation_checkpointing);
    int64_t stride = sure > 0 || effective_ == 0 ? 1 : std::max<int64_t>(1, low);
    int probes = 0;
    while (high - low > 1) {
      const int64_t before = low;
      probe(is_line && probes++ < kStraightProbes && slope() > 0 ? straight(low, high)
                                                                 : halving(low, high, stride));
      stride = low > before ? 2 * stride : most_;
    }
    return low < smallest_ ? 0 : low;
  }

  // A shorter length may need more memory than the longest, and the run reserves for all. So this goes down
  // from the size that fits for the longest.
  int64_t at_all_lengths(int64_t units) const {
    while (units >= smallest_ && !reserves_enough(units)) --units;
    return units < smallest_ ? 0 : units;
  }

 private:
  struct Point {
    double units = 0, bytes = 0;
  };

  Config with(int64_t units) const {
    Config changed = config_;
    growth_.set(changed, units * unit_);
    resolve_planned_world(changed);
    return changed;
  }

  bool reserves_enough(int64_t units) const {
    const Config changed = with(units);
    if (length_multiple(changed) == 0) return true;
    const PlannedRank rank(changed, 0, 0);
    const TrainingProgram longest = rank.require_plan(changed);
    try {
      return recollect::fits(changed, rank.reserve(changed, longest));
    } catch (const Error& refusal) {
      if (refusal.code() != ExitCode::kDeviceMemory) throw;
      return false;
    }
  }

  // A run may be too small for an activation checkpointing setting to have an effect, even the given run;
  // such sizes are not answers. A setting without effect in a few more layers never has one.
  bool fits(int64_t units) {
    const Config changed = with(units);
    if (units < given_ && (!validate(changed).empty() || has_one_length(changed))) return is_too_small(units);
    const TrainingProgram training = PlannedRank(changed, 0, 0).plan(changed);
    if (const std::optional<Error>& refusal = training.checkpointed.refusal) {
      if (refusal->code() == ExitCode::kDeviceMemory) return false;
      const int64_t few = effective_ > 0 ? effective_ - 1 : std::min(given_ + kFewMore, most_ - 1);
      if (units <= few) return is_too_small(units);
      throw *refusal;
    }
    effective_ = effective_ > 0 ? std::min(effective_, units) : units;
    const MemoryLedger& memory = training.program.predicted();
    before_last_ = last_;
    last_ = {static_cast<double>(units), static_cast<double>(memory.arena_bytes())};
    return recollect::fits(changed, memory);
  }

  bool is_too_small(int64_t units) {
    smallest_ = std::max(smallest_, units + 1);
    return true;
  }

  // Bytes for one more unit, from the last two plans.
  double slope() const {
    if (before_last_.units == 0 || before_last_.units == last_.units) return 0;
    return (last_.bytes - before_last_.bytes) / (last_.units - before_last_.units);
  }

  // Without a choice among plans memory is almost linear in the size.
  int64_t straight(int64_t low, int64_t high) const {
    const double room = static_cast<double>(budget_of(config_)) - last_.bytes;
    return static_cast<int64_t>(std::clamp(last_.units + room / slope(), static_cast<double>(low + 1),
                                           static_cast<double>(high - 1)));
  }

  int64_t halving(int64_t low, int64_t high, int64_t stride) const {
    const int64_t middle = high > most_ ? most_ : low + (high - low) / 2;
    return stride < middle - low ? low + stride : middle;
  }

  const Config& config_;
  int64_t unit_, given_, most_;
  const Growth& growth_;
  int64_t smallest_ = 1;
  int64_t effective_ = 0;  // the smallest size in which every setting has an effect; 0: none yet
  Point last_, before_last_;
};

int64_t fits_in_full(const Config& config, const Growth& growth) {
  const Config full = with_full(config);
  Search search(full, growth);
  try {
    return search.largest(0);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kConfiguration) throw;
    return 0;  // the mode has no effect in the given run
  }
}

}  // namespace

LargestRun largest_run(const Config& config, RunSize size) {
  if (budget_of(config) == 0)
    throw Error(ExitCode::kConfiguration,
                fmt::format("--max-{} needs a limit that the run must fit", name_of(size)),
                "give device.memory_limit=BYTES");
  Growth growth = growth_of(config, size);
  if (size != RunSize::kMicroBatch) stop_at_most_lengths(config, growth);
  Search search(config, growth);
  const CheckpointingSettings& c = config.activation_checkpointing;
  const bool tries_full =
      c.mode == CheckpointingMode::kAuto && plans(c) && is_limit(budget_of(config), config);
  const int64_t units = search.at_all_lengths(search.largest(tries_full ? fits_in_full(config, growth) : 0));
  LargestRun run{.value = units * growth.unit, .smallest = search.smallest() * growth.unit};
  Config changed = config;
  run.settings = growth.set(changed, std::max(run.value, run.smallest));
  if (units == search.most()) run.bound = growth.bound;
  return run;
}

}  // namespace recollect
