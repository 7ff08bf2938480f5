// The table of op cases: one description per case, from which the harness makes every check (gradients,
// parity of backends and precisions, memory discipline). A new op kind needs cases here and nothing else.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "engine/graph/attributes.h"
#include "engine/runtime/kernel.h"

namespace recollect::test {

// Which of a run's dtypes a value has: that of activations, that of statistics, or one that never changes.
enum class Storage { kActivation, kStatistics, kI32, kF32, kF64, kU8, kE4M3, kE5M2 };

enum class Fill {
  kAbsent,     // an optional input that is not there
  kNormal,     // offset + scale * normal
  kPositive,   // offset + scale * |normal|
  kIds,        // whole numbers in [0, limit)
  kTargets,    // the same, every third of them -100
  kIgnored,    // -100
  kLengths,    // whole numbers from offset to limit, both of them among four
  kPositions,  // of sequences of `offset` tokens and more, `limit` more on average, with padding between
  kPlaces,     // whole numbers in [0, limit), none of them twice, and a -1
  kGarbage,    // NaN in every byte: must be overwritten
};

struct ValueSpec {
  std::string name = {};
  Shape shape = {};
  Storage storage = Storage::kActivation;
  Fill fill = Fill::kNormal;
  double scale = 1;
  double offset = 0;
  int64_t limit = 0;
};

// Inputs that are outputs of another op kind on some of the same inputs, as a backward op's statistics are.
struct Derived {
  std::string kind;
  std::vector<int> from;      // the other op's inputs, by number of the case's inputs
  std::map<int, int> inputs;  // the other op's output -> the case's input
};

struct OpCase {
  std::string name;
  std::string kind;
  std::vector<ValueSpec> inputs = {};
  Attributes attributes = {};
  std::map<int, ValueSpec> accumulators = {};  // by output; absent outputs are overwritten
  bool accumulate = false;                     // accumulators hold numbers before the run
  std::vector<int> differentiable = {};        // inputs whose gradient is checked
  int used_elsewhere = -1;                     // an input that reaches the loss past this op, too
  std::vector<Derived> derived = {};
  RunState state = {.seed = 0x1234567890abcdef, .step = 7, .first_sample = 3, .token_stride = 256};
  // How many roundings to bf16 (2^-8 of the value's scale) a result may be away; 1 is that of storing it.
  double bf16_roundings = 1;
  // How much larger than its result an op's formula makes a rounding of float on the way.
  double condition = 1;
};

inline void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

// Every case, with distinct names.
std::vector<OpCase> op_cases();

// The parts of the table, by subject.
void add_table_cases(std::vector<OpCase>& cases);  // embedding, add_position, add_embedding
void add_first_token_cases(std::vector<OpCase>& cases);
void add_sequence_cases(std::vector<OpCase>& cases);
void add_rotary_cases(std::vector<OpCase>& cases);
void add_pointwise_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_head_norm_cases(std::vector<OpCase>& cases);
void add_linear_cases(std::vector<OpCase>& cases);
void add_float8_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);
void add_generation_cases(std::vector<OpCase>& cases);  // cached_attention, lm_logits
void add_lm_head_cases(std::vector<OpCase>& cases);
void add_label_loss_cases(std::vector<OpCase>& cases);
void add_optimizer_cases(std::vector<OpCase>& cases);
void add_quantised_cases(std::vector<OpCase>& cases);
void add_adafactor_cases(std::vector<OpCase>& cases);
void add_muon_cases(std::vector<OpCase>& cases);

// Adds the case, and again with accumulators that hold numbers already.
void add_both(std::vector<OpCase>& cases, OpCase c);

inline ValueSpec activation(std::string name, Shape shape, double scale = 1) {
  return {.name = std::move(name), .shape = shape, .scale = scale};
}
inline ValueSpec statistic(std::string name, Shape shape, double scale = 1, double offset = 0) {
  return {.name = std::move(name),
          .shape = shape,
          .storage = Storage::kStatistics,
          .scale = scale,
          .offset = offset};
}
inline ValueSpec absent() { return {.fill = Fill::kAbsent}; }

}  // namespace recollect::test
