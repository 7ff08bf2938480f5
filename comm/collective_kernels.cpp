// The kernels of the ops in collective_ops.h: each binds a call of a communicator to the op's operands.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_times.h"
#include "comm/collective_ops.h"
#include "engine/runtime/enqueue.h"

namespace recollect {
namespace {

void copy(const KernelArgs& args) {
  const Tensor &from = args.in[0], &to = args.out[0];
  if (from.data != to.data) copy_bytes(to.data, from.data, from.bytes(), args.stream);
}

// A collective bound to its communicator.
template <typename Function>
class CollectiveKernel final : public Kernel {
 public:
  CollectiveKernel(Communicator& communicator, Function function, std::string op)
      : communicator_(communicator), function_(std::move(function)), op_(std::move(op)) {}
  void run(const KernelArgs& args) override {
    const CallTimes* times = communicator_.times();
    const double before = times ? times->waiting() : 0;
    const OpName name(communicator_, op_.c_str());
    function_(communicator_, args);
    if (times) wait_ = {times->waiting() - before, times->latest()};
  }
  OutsideWait outside_wait() const override { return wait_; }

 private:
  struct OpName {
    OpName(Communicator& communicator, const char* op) : communicator(communicator) {
      communicator.name_op(op);
    }
    ~OpName() { communicator.name_op(nullptr); }
    Communicator& communicator;
  };

  Communicator& communicator_;
  Function function_;
  const std::string op_;
  OutsideWait wait_;
};

template <typename Function>
std::unique_ptr<Kernel> bind(const OpView& view, const CommunicatorLookup& lookup, Function function) {
  const std::string& axis = view.attributes().text("axis");
  const int64_t size = view.attributes().integer("size");
  Communicator& communicator = lookup(axis, view.op.stream);
  require(communicator.size() == size, view.op.name + ": planned for " + std::to_string(size) + " " + axis +
                                           " ranks, run by " + std::to_string(communicator.size()));
  return std::make_unique<CollectiveKernel<Function>>(communicator, std::move(function), view.op.name);
}

template <typename Function>
void add(KernelTable& table, const char* kind, const CommunicatorLookup& lookup, Function function) {
  table.add(kind, [=](const OpView& view) { return bind(view, lookup, function); });
}

// Members of a group that are adjacent in memory: one range, including the padding between them.
struct GroupRange {
  std::size_t first = 0, last = 0;  // indices of the op's values
  int64_t elements = 0;
};

std::vector<GroupRange> ranges_of(const OpView& view) {
  const Group& group = view.graph.group(static_cast<GroupId>(view.attributes().integer("group")));
  std::vector<GroupRange> ranges;
  std::size_t next = 0;  // the place in the group that would extend the latest range
  uint64_t begin = 0;
  for (std::size_t i = 0; i < view.op.outputs.size(); ++i) {
    const Value& value = view.graph.value(view.op.outputs[i]);
    const std::size_t place = view.graph.place_in_group(view.op.outputs[i]);
    if (ranges.empty() || place != next) {
      ranges.push_back({.first = i});
      begin = group.offsets[place];
    }
    ranges.back().last = i;
    ranges.back().elements =
        static_cast<int64_t>((group.offsets[place] + value.bytes() - begin) / size_of(value.dtype));
    next = place + 1;
  }
  return ranges;
}

void all_reduce_range(Communicator& communicator, const GroupRange& range, const KernelArgs& args) {
  const Tensor &first = args.out[range.first], &last = args.out[range.last];
  const Tensor whole{first.data, {range.elements}, first.dtype};
  const std::byte* end = static_cast<const std::byte*>(last.data) + last.bytes();
  require(static_cast<const std::byte*>(first.data) + whole.bytes() == end,
          "the members of a group do not lie where the group has them");
  communicator.all_reduce(whole, ReduceOp::kSum, args.stream);
}

// Returns the rows of all ranks in `whole`; `part` has the size of one rank's rows.
Tensor all_parts(const Tensor& whole, const Tensor& part, int ranks) {
  return {whole.data, {part.elements() * ranks}, whole.dtype};
}

Tensor own_part(const Tensor& whole, const Tensor& part, int rank) {
  return {static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(rank) * part.bytes(),
          {part.elements()},
          part.dtype};
}

Tensor flat(const Tensor& tensor) { return {tensor.data, {tensor.elements()}, tensor.dtype}; }

// If sums are added to those of earlier micro-batches, the part has its own memory: the new sum goes into the
// value first and is then added. Otherwise the part may lie within the value. Rows beyond the value's own are
// cleared, so that padding adds zeros.
void reduce_scatter_one(Communicator& communicator, const Tensor& value, const Tensor& part,
                        const KernelArgs& args) {
  const Tensor all = all_parts(value, part, communicator.size()),
               own = own_part(value, part, communicator.rank());
  clear_bytes(static_cast<std::byte*>(value.data) + value.bytes(), all.bytes() - value.bytes(), args.stream);
  communicator.reduce_scatter(all, args.accumulate ? own : flat(part), args.stream);
  if (args.accumulate) accumulate(own, flat(part), args.stream);
}

// Broadcasts rows [first, end) from the ranks that own them: one call per owner.
void broadcast_rows(Communicator& communicator, int64_t first, const KernelArgs& args) {
  const Tensor &x = args.in[0], &y = args.out[0];
  const int64_t n = x.shape[0], width = x.elements() / n, end = first + y.elements() / width;
  const std::size_t row_bytes = x.bytes() / static_cast<std::size_t>(n);
  for (int64_t begin = first; begin < end;) {
    const auto owner = static_cast<int>(begin / n);
    const int64_t rows = std::min(end, (owner + 1) * n) - begin;
    auto* to = static_cast<std::byte*>(y.data) + static_cast<std::size_t>(begin - first) * row_bytes;
    if (owner == communicator.rank())
      copy_bytes(
          to, static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(begin - owner * n) * row_bytes,
          static_cast<std::size_t>(rows) * row_bytes, args.stream);
    communicator.broadcast({to, {rows * width}, y.dtype}, owner, args.stream);
    begin += rows;
  }
}

}  // namespace

void register_comm_kernels(KernelTable& table, const CommunicatorLookup& lookup) {
  table.add("all_reduce", [=](const OpView& view) -> std::unique_ptr<Kernel> {
    const bool max = view.attributes().has("op") && view.attributes().text("op") == "max";
    const ReduceOp op = max ? ReduceOp::kMax : ReduceOp::kSum;
    const auto function = [op](Communicator& communicator, const KernelArgs& args) {
      copy(args);
      communicator.all_reduce(args.out[0], op, args.stream);
    };
    return bind(view, lookup, function);
  });
  add(table, "copy_to_ranks", lookup, [](Communicator&, const KernelArgs& args) { copy(args); });
  for (const char* kind : {"all_gather", "gather_from_ranks"})
    add(table, kind, lookup, [](Communicator& communicator, const KernelArgs& args) {
      communicator.all_gather(args.in[0], args.out[0], args.stream);
    });
  add(table, "take_own_part", lookup, [](Communicator& communicator, const KernelArgs& args) {
    const Tensor& part = args.out[0];
    const auto* whole = static_cast<const std::byte*>(args.in[0].data);
    copy_bytes(part.data, whole + static_cast<std::size_t>(communicator.rank()) * part.bytes(), part.bytes(),
               args.stream);
  });
  add(table, "reduce_scatter", lookup, [](Communicator& communicator, const KernelArgs& args) {
    communicator.reduce_scatter(args.in[0], args.out[0], args.stream);
  });
  add(table, "reduce_scatter_accumulators", lookup, [](Communicator& communicator, const KernelArgs& args) {
    for (std::size_t i = 0; i < args.in.size(); ++i)
      reduce_scatter_one(communicator, args.in[i], args.out[i], args);
  });
  for (const char* kind : {"all_gather_accumulators", "gather_parts"})
    add(table, kind, lookup, [](Communicator& communicator, const KernelArgs& args) {
      for (std::size_t i = 0; i < args.in.size(); ++i)
        communicator.all_gather(flat(args.in[i]), all_parts(args.out[i], args.in[i], communicator.size()),
                                args.stream);
    });
  table.add("broadcast_rows", [=](const OpView& view) {
    const int64_t first = view.attributes().integer("first_row");
    return bind(view, lookup, [first](Communicator& communicator, const KernelArgs& args) {
      broadcast_rows(communicator, first, args);
    });
  });
  table.add("joined_rows", [](const KernelArgs&, const Attributes&) {});
  table.add("all_reduce_accumulators", [=](const OpView& view) {
    return bind(view, lookup, [ranges = ranges_of(view)](Communicator& communicator, const KernelArgs& args) {
      for (const GroupRange& range : ranges) all_reduce_range(communicator, range, args);
    });
  });
}

}  // namespace recollect
