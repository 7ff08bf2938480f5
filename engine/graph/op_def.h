// One op kind, in one place: which shapes it makes, what it costs, which ops are its gradient. Kinds are
// registered explicitly (`register_engine_ops`, `register_comm_ops`); nothing happens at static
// initialisation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class GradientBuilder;

// A read-only look at one op of a graph, for inference, cost and kernel binding.
struct OpView {
  const Graph& graph;
  const Op& op;

  bool has_input(int i) const { return i < static_cast<int>(op.inputs.size()) && op.inputs[i] != kNone; }
  const Value& in(int i) const;  // throws where the input is absent
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

// What an op keeps busy, and so which of a device's rates it goes by.
enum class Unit : uint8_t {
  kVector,      // memory, and arithmetic on what streams by
  kGemm,        // matrix products
  kAttention,   // matrix products around a softmax
  kCopy,        // the way between the memory spaces of a rank
  kCollective,  // the link between ranks
  kHost,        // the processor and the memory of a device's host
};

struct Cost {
  double flops = 0;       // multiply and add count two
  double bytes = 0;       // moved to and from memory
  double link_bytes = 0;  // sent by this rank over the link between ranks or to another memory space
  double exchanges = 0;   // of a few numbers with the other ranks, between parts of the work: latency alone
  double pieces = 1;      // of equal size, each the work of one thread: rates go by the size of one
};

struct OpDef {
  std::string name;
  // Checks inputs and attributes (an Error names the op) and returns one spec per output.
  std::vector<OutputSpec> (*infer)(const OpView&) = nullptr;
  Cost (*cost)(const OpView&) = nullptr;
  // Emits the ops of the gradient; null where none flows.
  void (*gradient)(GradientBuilder&, OpId) = nullptr;
  // Pairs {output, input}: the output may take the input's storage when that input dies here.
  std::vector<std::pair<int, int>> in_place = {};
  Unit unit = Unit::kVector;
  // Reduces rows to their statistics and goes by these: norms, and losses over classes.
  bool normalises = false;
  // Groups for selective recomputation: "attention", "norm", "activation", "dropout", "gemm"; "" is none.
  std::string group = {};
  // The output is the input, handed to the ranks: it belongs to the group of the op that made that.
  bool passes_on = false;
  // The output is put together of the tensor ranks' parts: a rank saves its part and can gather it again.
  bool gathers = false;
  // It says what lies in memory already: nothing runs, and it takes no time.
  bool names_alone = false;
  // The op kind whose rates hold for this one where a device knows none of its own; "": there is none.
  std::string measured_as = {};
  // With an op of kind `next` that reads its output first it can be one of kind `joined` (join_ops.h); "": with none.
  struct Joint {
    std::string next = {}, joined = {};
    bool (*fits)(const Op&) = nullptr;  // null: whatever its attributes are
    int output = 0;                     // which of its outputs that is
  } joint = {};
  // Of what is joined with quantise: the kind that makes all outputs but the codes (add_with_codes).
  const OpDef* joined_from = nullptr;
  // What an op of kind `kind` makes of this op's input of number `input`, this op can make too, as its last output, where
  // `attribute` is 1 (join_sums); "": of none.
  struct SumsToo {
    std::string kind = {};
    std::size_t input = 0;
    std::string attribute = {};
  } sums_too = {};
};

class OpRegistry {
 public:
  void add(OpDef def);                             // a second op kind of the same name is an Error
  const OpDef* find(std::string_view name) const;  // throws where there is none
  std::vector<const OpDef*> all() const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> defs_;
};

}  // namespace recollect
