// An OpDef describes one op kind in one place: which shapes it makes, what it costs, which ops are its
// gradient. Kinds are registered explicitly (`register_engine_ops`, `register_comm_ops`); nothing happens at
// static initialisation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class GradientBuilder;

// A read-only view of one op of a graph, for inference, cost and kernel binding.
struct OpView {
  const Graph& graph;
  const Op& op;

  bool has_input(int i) const { return i < static_cast<int>(op.inputs.size()) && op.inputs[i] != kNone; }
  const Value& in(int i) const;  // throws if the input is absent
  const Value& out(int i) const;
  const Attributes& attributes() const { return op.attributes; }
};

struct OutputSpec {
  Shape shape;
  DType dtype = DType::kF32;
  std::string suffix = {};  // "" names the value after the op, "mean" makes it "<op>/mean"
  Placement placement = {};
  Category category = Category::kActivation;
  MemorySpace space = MemorySpace::kDevice;
};

// The resource that an op keeps busy. It selects the device's rate that predicts the op's time.
enum class Unit : uint8_t {
  kVector,      // memory bandwidth, and arithmetic on data that streams by
  kGemm,        // matrix products
  kAttention,   // matrix products around a softmax
  kCopy,        // the path between the memory spaces of a rank
  kCollective,  // the link between ranks
  kHost,        // the processor and the memory of a device's host
};

struct Cost {
  double flops = 0;       // a multiply and an add count as two
  double bytes = 0;       // moved to and from memory
  double link_bytes = 0;  // sent by this rank over the link between ranks or to another memory space
  double exchanges = 0;   // of a few numbers with other ranks, between parts of the work: only latency
  double pieces = 1;      // of equal size, each the work of one thread: rates depend on their size
};

struct OpDef {
  std::string name;
  // Checks inputs and attributes (an Error names the op) and returns one spec per output.
  std::vector<OutputSpec> (*infer)(const OpView&) = nullptr;
  Cost (*cost)(const OpView&) = nullptr;
  // Emits the ops of the gradient; null if no gradient flows.
  void (*gradient)(GradientBuilder&, OpId) = nullptr;
  // Pairs {output, input}: the output may reuse the input's storage if this op is the input's last use.
  std::vector<std::pair<int, int>> in_place = {};
  Unit unit = Unit::kVector;
  // Reduces each row to statistics and then uses them: norms, and losses over classes.
  bool normalises = false;
  // Groups for selective recomputation: "attention", "norm", "activation", "dropout", "gemm"; "" is none.
  std::string group = {};
  // The output is the input, passed on to the ranks: it belongs to the group of the op that made the input.
  bool passes_on = false;
  // The output is assembled from the tensor ranks' parts: a rank can save its part and gather the output
  // again.
  bool gathers = false;
  // The op only names data that is in memory already: nothing runs, and it takes no time.
  bool names_alone = false;
  // The op kind whose rates are used if a device has none for this kind; "" is none.
  std::string measured_as = {};
  // If an op of kind `next` has this op's output as its first input, both can become one op of kind `joined`
  // (join_ops.h); "" is never.
  struct Joint {
    std::string next = {}, joined = {};
    bool (*fits)(const Op&) = nullptr;  // null: with any attributes
    int output = 0;                     // the output that `next` reads
  } joint = {};
  // For kinds that are joined with quantise: the kind that makes all outputs except the codes
  // (add_with_codes).
  const OpDef* joined_from = nullptr;
  // This op can also make, as its last output, what an op of kind `kind` makes of the same value, which is
  // this op's input number `input`. It does so if `attribute` is 1 (join_sums); "" is never.
  struct SumsToo {
    std::string kind = {};
    std::size_t input = 0;
    std::string attribute = {};
  } sums_too = {};
};

class OpRegistry {
 public:
  void add(OpDef def);                             // throws an Error if the name is taken
  const OpDef* find(std::string_view name) const;  // throws if there is none
  std::vector<const OpDef*> all() const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> defs_;
};

}  // namespace recollect
