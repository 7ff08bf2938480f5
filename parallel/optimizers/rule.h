// An update rule says what it keeps of a parameter from step to step, which numbers it wants from the host at
// each update, and the ops of an update. Everything else of a step (norm, clipping, master copies) is the
// same for all rules.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/graph/op_builder.h"
#include "parallel/parameter.h"

namespace recollect {

// Parameters that are treated otherwise, by their names in the model's files.
struct ParameterGroup {
  std::vector<std::string> match = {};    // patterns, as groups.h reads them
  std::optional<double> rate_scale = {};  // times the learning rate
  std::optional<double> weight_decay = {};
  bool frozen = false;     // they have no gradient, no master copy and no state
  std::string where = {};  // it was given, for messages
};

// Of Adafactor: whether the step's number says the rate, from the first step on or after a warm-up.
enum class RelativeStep { kOff, kOn, kWarmup };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<RelativeStep> = {"off", "on", "warmup"};

// Of Muon: what the rate is multiplied by, so that a step has the size that one of AdamW has, or as its authors do it.
enum class RateAdjustment { kMatchRmsAdamw, kOriginal };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<RateAdjustment> = {"match_rms_adamw", "original"};

// Where states and masters are kept between two updates: beside the parameters, in the host's memory or on its disk.
enum class OffloadTo { kNone, kHost, kDisk };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<OffloadTo> = {"none", "host", "disk"};

// Where states that are kept in the host's memory are updated: on the device, to which they travel, or where they are, by the
// host's processor.
enum class OffloadUpdate { kDevice, kHost };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<OffloadUpdate> = {"device", "host"};

struct StateOffload {
  OffloadTo to = OffloadTo::kNone;
  OffloadUpdate update = OffloadUpdate::kDevice;
  double ratio = 1;                           // the share of their bytes that is kept there
  int64_t chunk_elements = int64_t{1} << 20;  // of a parameter, which are updated together
};

// What that does on this rank.
struct OffloadReport {
  int64_t parameters = 0, values = 0, chunks = 0;
  uint64_t saved_bytes = 0;                      // of the device, between two updates
  uint64_t fetched_bytes = 0, stored_bytes = 0;  // a step, to the device and from it
  uint64_t stayed_bytes = 0;  // that would travel in each direction if the host did not update them
};

// What may be said of rules; each reads what concerns it.
struct OptimizerSettings {
  std::string name = "adamw";  // of rules.h
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, weight_decay = 0.01;
  double beta2_decay = -0.8, clip_threshold = 1, scale_epsilon = 1e-3;
  bool scale_parameter = true;
  RelativeStep relative_step = RelativeStep::kOff;
  bool nesterov = true;
  int64_t ns_steps = 5;
  RateAdjustment adjust_lr_fn = RateAdjustment::kMatchRmsAdamw;
  bool decay_all = false;     // otherwise vectors (biases and norms) are not decayed
  double max_grad_norm = 1;   // 0: never clips
  bool bf16_masters = false;  // matrices of bf16 are their own master copies, and rounded by chance
  bool loss_scaled = false;   // gradients are `loss_scale` times too large
  double layer_decay = 1;     // of the learning rate, from each layer to the one before it
  StateOffload offload = {};
  std::vector<ParameterGroup> groups = {};
};

// A tensor that a rule keeps of one parameter: this rank's part.
struct OptimizerState {
  std::string name;  // as torch's optimizers call it
  Shape shape;
  DType dtype = DType::kF32;
  Placement placement = {};
  StateOf of = StateOf::kElements;
};

// One parameter's turn.
struct ParameterUpdate {
  const Parameter& parameter;  // with gradient, master and states
  ValueId schedule = kNone;    // the rule's numbers
  ValueId factor = kNone;      // of the gradient
  double weight_decay = 0;
  int tensor_size = 1;        // ranks that may hold parts of it
  DType dtype = DType::kF32;  // of its gradient
  Attributes rounding = {};   // of a master that is rounded by chance
  bool on_host = false;       // by the host's processor, in its memory, where all of the above is then
};

class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;

  virtual std::vector<OptimizerState> states(const Parameter& parameter, const Value& gradient) const = 0;
  // Puts the numbers of update `update`, 1 for the first, in the place of what `to` holds: always as many, so
  // that only the first call allocates.
  virtual void scalars(double learning_rate, int64_t update, std::vector<double>& to) const = 0;
  // The rate of update `update` where the schedule's is `learning_rate`.
  virtual double rate(double learning_rate, int64_t) const { return learning_rate; }
  // Whether what becomes of a row depends on that row alone, so that ranks may have any rows of a parameter.
  virtual bool is_elementwise() const { return true; }
  // `ops` are those of the optimizer's phase, which add to what they write.
  virtual void emit(OpBuilder& ops, const ParameterUpdate& update) const = 0;
};

// A state like the gradient.
OptimizerState state_like(std::string name, const Value& gradient);

// A rule that is one op: it reads the numbers, the factor and the gradient, and writes the master, the states
// and, where that is another value, the parameter. `attributes` are the rule's own. On the host it is a host_update.
void emit_update(OpBuilder& ops, const ParameterUpdate& update, std::string_view kind, Attributes attributes);

}  // namespace recollect
