#include "checkpointing/collective_pieces.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpointing/simulator.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/op_builder.h"

namespace recollect {

namespace {

constexpr const char* kPieces = "pieces";  // the attribute of a product that is to be cut
constexpr int64_t kCandidates[] = {1, 2, 4, 8};
constexpr double kLeastGainOfPieces = 0.01;

using Readers = std::vector<std::vector<OpId>>;  // by value

Readers find_readers(const Graph& graph) {
  Readers readers(graph.values().size());
  for (OpId id : graph.op_ids())
    for (ValueId v : graph.op(id).inputs)
      if (v != kNone && (readers[v].empty() || readers[v].back() != id)) readers[v].push_back(id);
  return readers;
}

// Of the tensor ranks, where the compute stream waits for it.
bool is_collective(const Op& op, std::string_view kind) {
  return op.def->name == kind && op.stream == StreamId::kCompute && op.attributes.text("axis") == kTensorAxis;
}

bool sums(const Op& op) {
  return is_collective(op, "reduce_scatter") || (is_collective(op, "all_reduce") && !op.attributes.has("op"));
}

// A product of which nothing is read before gradients are complete.
bool makes_gradients(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return op.def->unit == Unit::kGemm && op.stream == StreamId::kCompute &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return v == kNone || graph.value(v).accumulator; });
}

// Whether the products before an op of backward, down to it, may go behind that sum over the ranks.
bool stands_before(const Op& op, const Op& sum) {
  const bool leads_there =
      op.def->unit == Unit::kGemm || op.stream != StreamId::kCompute ||
      std::find(op.outputs.begin(), op.outputs.end(), sum.inputs.front()) != op.outputs.end();
  return op.phase == Phase::kBackward && op.layer == sum.layer && leads_there && op.role != Role::kRecompute;
}

// Of weights' gradients that sums over the ranks may run beside. What is recomputed among them later, by whatever plan,
// keeps some of them from it: but not from leaving room for a sum, from which their bits may follow.
void mark_weights(Graph& graph) {
  for (OpId id : graph.op_ids()) {
    const Op& sum = graph.op(id);
    if (sum.phase != Phase::kBackward || !sums(sum)) continue;
    for (OpId at = id - 1; at >= 0 && stands_before(graph.op(at), sum); --at)
      if (graph.op(at).def->name == "linear_backward_weight" && makes_gradients(graph, at))
        graph.op(at).attributes.set(kBesideCollectives, int64_t{1});
  }
}

// The sum over the ranks that alone reads what a product makes; kNone where there is none.
OpId sum_of(const Graph& graph, const Readers& readers, OpId product) {
  const std::vector<OpId>& by = readers[graph.op(product).outputs.front()];
  return by.size() == 1 && sums(graph.op(by.front())) ? by.front() : kNone;
}

// The gather, on whatever stream, of what a product multiplies.
OpId gather_before(const Graph& graph, OpId product) {
  const OpId producer = graph.value(graph.op(product).inputs.front()).producer;
  return producer != kNone && graph.op(producer).def->name == "all_gather" ? producer : kNone;
}

// As the layout has it on the compute stream.
void sum_in_place(Graph& graph, const Readers& readers, ValueId in, ValueId out) {
  const Value& sum = graph.value(out);
  Value& summed = graph.value(in);
  if (readers[in].size() != 1 || summed.bytes() != sum.bytes() || summed.persistent || summed.accumulator ||
      summed.producer == kNone || summed.part_of != kNone || summed.group != kNone || sum.group != kNone ||
      summed.pooled || sum.pooled)
    return;
  summed.part_of = out;
}

struct Range {
  int64_t first, rows;
};

// Of `rows` rows the piece of that number.
Range range_of(int64_t rows, int64_t piece, int64_t pieces) {
  const int64_t first = rows * piece / pieces;
  return {first, rows * (piece + 1) / pieces - first};
}

Shape with_rows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

class Overlapper {
 public:
  Overlapper(Graph& graph, const OpRegistry& registry, int64_t pieces)
      : graph_(graph), ops_(graph, registry), edit_(graph), pieces_(pieces), readers_(find_readers(graph)) {}

  void run() {
    for (OpId id : graph_.op_ids()) {
      const Op& op = graph_.op(id);
      if (op.attributes.has(kPieces)) {
        cut_product(id);
      } else if (op.phase == Phase::kBackward && is_collective(op, "all_gather")) {
        cut_gradient(id);
      } else if (op.phase == Phase::kBackward && sums(op)) {
        run_beside_weights(id);
      }
    }
    edit_.commit();
  }

 private:
  void cut_product(OpId product) {
    const int64_t pieces = graph_.op(product).attributes.integer(kPieces);
    const OpId sum = sum_of(graph_, readers_, product), gather = gather_before(graph_, product);
    if (sum != kNone)
      cut_before(sum, product, pieces);
    else if (gather != kNone && is_collective(graph_.op(gather), "all_gather") &&
             reads_first(product, gather))
      cut_behind(gather, product, pieces);
    else
      cut_alone(product, pieces);
  }

  bool reads_first(OpId product, OpId gather) const {
    return readers_[graph_.op(gather).outputs.front()].front() == product;
  }

  // Piece by piece of the summed rows, of which each rank has a block in the product where the sum is scattered.
  void cut_before(OpId sum, OpId product, int64_t pieces) {
    const Op whole_product = graph_.op(product), whole_sum = graph_.op(sum);
    const ValueId y = whole_product.outputs.front(), z = whole_sum.outputs.front();
    const Value whole_y = graph_.value(y);
    const int64_t tokens = whole_y.shape[0], rows = graph_.value(z).shape[0], blocks = tokens / rows;
    std::vector<ValueId> summed;
    for (int64_t p = 0; p < pieces; ++p) {
      const Range range = range_of(rows, p, pieces);
      Value part = whole_y;
      part.shape = with_rows(part.shape, blocks * range.rows);
      if (blocks == 1) {  // summed in place
        part.pooled = graph_.value(z).pooled;
        part.part_of = z;
        part.part_offset = static_cast<uint64_t>(range.first) * row_bytes(z);
      }
      ValueId multiplied = y;
      if (p == 0)
        graph_.value(y) = part;
      else
        multiplied = graph_.add_value(numbered(std::move(part), p));
      summed.push_back(part_of(z, p, range));
      Op multiply = rows_of(whole_product, p, range, blocks, rows, tokens);
      multiply.outputs = {multiplied};
      if (p == 0)
        edit_.op(product) = std::move(multiply);
      else
        edit_.insert_after(product, std::move(multiply));
      Op add_up = numbered(whole_sum, p);
      add_up.inputs = {multiplied};
      add_up.outputs = {summed.back()};
      add_up.stream = StreamId::kCommunication;
      edit_.insert_after(product, std::move(add_up));
    }
    edit_.op(sum) = join(whole_sum, std::move(summed), z);
  }

  // The gathered value is whole when the product is, for whoever reads it then.
  void cut_behind(OpId gather, OpId product, int64_t pieces) {
    const Op whole_gather = graph_.op(gather), whole_product = graph_.op(product);
    const ValueId x = whole_gather.outputs.front(), y = whole_product.outputs.front();
    const int64_t tokens = graph_.value(x).shape[0];
    std::vector<ValueId> gathered, multiplied;
    for (int64_t p = 0; p < pieces; ++p) {
      const Range range = range_of(tokens, p, pieces);
      gathered.push_back(part_of(x, p, range));
      multiplied.push_back(part_of(y, p, range));
      Op hand_round = numbered(whole_gather, p);
      hand_round.def = kind("broadcast_rows");
      hand_round.attributes.set("first_row", range.first);
      hand_round.outputs = {gathered.back()};
      hand_round.stream = StreamId::kCommunication;
      if (p == 0)
        edit_.op(gather) = std::move(hand_round);
      else
        edit_.insert_after(gather, std::move(hand_round));
      Op multiply = piece_of_product(whole_product, p, range.rows, tokens);
      multiply.inputs.front() = gathered.back();
      multiply.outputs = {multiplied.back()};
      edit_.insert_before(product, std::move(multiply));
    }
    edit_.insert_before(product, join(whole_gather, std::move(gathered), x));
    edit_.op(product) = join(whole_product, std::move(multiplied), y);
  }

  // What it multiplies is there already: as recomputed, of an input that was gathered early.
  void cut_alone(OpId product, int64_t pieces) {
    const Op whole = graph_.op(product);
    const ValueId y = whole.outputs.front();
    const int64_t tokens = graph_.value(y).shape[0];
    std::vector<ValueId> multiplied;
    for (int64_t p = 0; p < pieces; ++p) {
      const Range range = range_of(tokens, p, pieces);
      multiplied.push_back(part_of(y, p, range));
      Op multiply = rows_of(whole, p, range, 1, range.rows, tokens);
      multiply.outputs = {multiplied.back()};
      edit_.insert_before(product, std::move(multiply));
    }
    edit_.op(product) = join(whole, std::move(multiplied), y);
  }

  // The gradient of a product's input is made piece by piece, and the weights' gradient behind it, of all pieces.
  void cut_gradient(OpId gather) {
    const ValueId dy = graph_.op(gather).outputs.front();
    const int64_t pieces = std::min(pieces_, graph_.value(dy).shape[0]);
    OpId product = kNone;
    for (OpId id : readers_[dy])
      if (graph_.op(id).def->name == "linear_backward_input") product = product == kNone ? id : kMany;
    const bool others_wait = std::all_of(readers_[dy].begin(), readers_[dy].end(), [&](OpId id) {
      return id >= product || makes_gradients(graph_, id);
    });
    if (pieces < 2 || product == kNone || product == kMany || !others_wait) return;
    for (OpId id : readers_[dy])
      if (id < product) edit_.move_after(id, product);
    cut_behind(gather, product, pieces);
  }

  void run_beside_weights(OpId sum) {
    std::vector<OpId> weights;
    const ValueId in = graph_.op(sum).inputs.front();
    for (OpId id = sum - 1; id >= 0; --id) {
      if (!stands_before(graph_.op(id), graph_.op(sum)) || edit_.place(id) != id) break;
      if (makes_gradients(graph_, id)) weights.push_back(id);
    }
    if (weights.empty()) return;
    for (auto id = weights.rbegin(); id != weights.rend(); ++id) edit_.move_after(*id, sum);
    edit_.op(sum).stream = StreamId::kCommunication;
    sum_in_place(graph_, readers_, in, graph_.op(sum).outputs.front());
  }

  // The rows of a product that stand together in that many blocks, `stride` rows apart.
  Op rows_of(const Op& product, int64_t piece, Range range, int64_t blocks, int64_t stride, int64_t tokens) {
    Op op = numbered(product, piece);
    op.def = kind("linear_rows");
    op.attributes = {{"first_row", range.first},
                     {"rows", range.rows},
                     {"blocks", blocks},
                     {"stride", stride},
                     {"whole_rows", tokens}};
    return op;
  }

  // The product of a piece that is a value by itself.
  Op piece_of_product(const Op& product, int64_t piece, int64_t rows, int64_t tokens) {
    if (product.def->name == "linear") return rows_of(product, piece, {0, rows}, 1, rows, tokens);
    Op op = numbered(product, piece);
    op.attributes.set("whole_rows", tokens);
    return op;
  }

  Op join(const Op& whole, std::vector<ValueId> parts, ValueId value) {
    Op op = whole;
    op.def = kind("joined_rows");
    op.attributes = {};
    op.inputs = std::move(parts);
    op.outputs = {value};
    op.after.clear();
    return op;
  }

  // What the whole waits for, the first piece does, and the others come behind it.
  static Op numbered(Op op, int64_t piece) {
    op.name += "/" + std::to_string(piece);
    if (piece > 0) op.after.clear();
    return op;
  }
  static Value numbered(Value value, int64_t piece) {
    value.name += "/" + std::to_string(piece);
    value.producer = kNone;
    return value;
  }

  ValueId part_of(ValueId whole, int64_t piece, Range range) {
    Value part = numbered(graph_.value(whole), piece);
    part.shape = with_rows(part.shape, range.rows);
    part.part_of = whole;
    part.part_offset = static_cast<uint64_t>(range.first) * row_bytes(whole);
    return graph_.add_value(std::move(part));
  }

  uint64_t row_bytes(ValueId v) const {
    const Value& value = graph_.value(v);
    return value.bytes() / static_cast<uint64_t>(value.shape[0]);
  }

  const OpDef* kind(const char* name) const { return ops_.make("", name, {}, {}).def; }

  static constexpr OpId kMany = -2;

  Graph& graph_;
  const OpBuilder ops_;
  GraphEdit edit_;
  const int64_t pieces_;
  const Readers readers_;  // of the values that there were before
};

// Tokens of the products that could be cut, or have a sum over the ranks behind them; 0 where there are none.
int64_t fewest_rows(const Graph& graph) {
  const Readers readers = find_readers(graph);
  int64_t fewest = 0;
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.phase != Phase::kForward || (op.def->name != "linear" && op.def->name != "linear_fp8") ||
        (sum_of(graph, readers, id) == kNone && gather_before(graph, id) == kNone))
      continue;
    const int64_t rows = graph.value(op.outputs.front()).shape[0];
    fewest = fewest == 0 ? rows : std::min(fewest, rows);
  }
  return fewest;
}

double seconds_with(Graph graph, const OpRegistry& registry, const DeviceModel& device, int64_t pieces) {
  if (pieces != kInPlace) {
    mark_pieces(graph, pieces);
    overlap_collectives(graph, registry, pieces);
  }
  return simulate(graph, make_schedule(graph), device, 1).step_seconds;
}

}  // namespace

void mark_pieces(Graph& graph, int64_t pieces) {
  if (pieces != kInPlace) mark_weights(graph);
  if (pieces < 2) return;
  const Readers readers = find_readers(graph);
  for (OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (op.phase != Phase::kForward || op.def->name != "linear") continue;
    const OpId sum = sum_of(graph, readers, id);
    if (sum == kNone && gather_before(graph, id) == kNone) continue;
    const ValueId cut = sum == kNone ? op.outputs.front() : graph.op(sum).outputs.front();
    const int64_t rows = std::min(pieces, graph.value(cut).shape[0]);
    if (rows > 1) op.attributes.set(kPieces, rows);
  }
}

void overlap_collectives(Graph& graph, const OpRegistry& registry, int64_t pieces) {
  if (pieces != kInPlace) Overlapper(graph, registry, pieces).run();
}

void leave_compute_stream(Graph& graph) {
  const Readers readers = find_readers(graph);
  for (OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (sums(op)) sum_in_place(graph, readers, op.inputs.front(), op.outputs.front());
    if (sums(op) || is_collective(op, "all_gather")) op.stream = StreamId::kCommunication;
  }
}

void leave_open_what_overlaps(Graph& graph, std::vector<uint64_t>& workspaces, int64_t pieces) {
  if (pieces == kInPlace) return;
  for (OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (is_collective(op, "all_gather") || sums(op)) op.stream = StreamId::kCommunication;
    if (pieces > 1 && (op.def->name == "linear" || op.def->name == "linear_backward_input"))
      workspaces[id] = 0;
  }
}

int64_t choose_pieces(const Graph& graph, const OpRegistry& registry, const DeviceModel& device) {
  const int64_t rows = fewest_rows(graph);
  if (rows < kLeastRowsOfPiece) return kInPlace;
  int64_t best = kInPlace;
  double least = seconds_with(graph, registry, device, kInPlace);
  const double worth = kLeastGainOfPieces * least;
  for (const int64_t pieces : kCandidates) {
    if (rows / pieces < kLeastRowsOfPiece) break;
    const double seconds = seconds_with(graph, registry, device, pieces);
    if (least - seconds <= worth) continue;
    best = pieces;
    least = seconds;
  }
  return best;
}

}  // namespace recollect
