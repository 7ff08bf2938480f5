#include <utility>

#include "comm/call_times.h"
#include "comm/collective_ops.h"
#include "engine/runtime/enqueue.h"

namespace recollect {
namespace {

// Values in an arena start on 64-byte boundaries; the gap between neighbours belongs to nobody.
constexpr std::ptrdiff_t kLargestGap = 63;

void copy(const KernelArgs& args) {
  const Tensor &from = args.in[0], &to = args.out[0];
  if (from.data != to.data) copy_bytes(to.data, from.data, from.bytes(), args.stream);
}

// A collective bound to its communicator.
template <typename Function>
class CollectiveKernel final : public Kernel {
 public:
  CollectiveKernel(Communicator& communicator, Function function)
      : communicator_(communicator), function_(std::move(function)) {}
  void run(const KernelArgs& args) override {
    const CallTimes* times = communicator_.times();
    const double before = times ? times->waiting() : 0;
    function_(communicator_, args);
    if (times) wait_ = {times->waiting() - before, times->latest()};
  }
  OutsideWait outside_wait() const override { return wait_; }

 private:
  Communicator& communicator_;
  Function function_;
  OutsideWait wait_;
};

template <typename Function>
std::unique_ptr<Kernel> bind(const OpView& view, const CommunicatorLookup& lookup, Function function) {
  const std::string& axis = view.attributes().text("axis");
  const int64_t size = view.attributes().integer("size");
  Communicator& communicator = lookup(axis, view.op.stream);
  require(communicator.size() == size, view.op.name + ": planned for " + std::to_string(size) + " " + axis +
                                           " ranks, run by " + std::to_string(communicator.size()));
  return std::make_unique<CollectiveKernel<Function>>(communicator, std::move(function));
}

template <typename Function>
void add(KernelTable& table, const char* kind, const CommunicatorLookup& lookup, Function function) {
  table.add(kind, [=](const OpView& view) { return bind(view, lookup, function); });
}

// Whether `next` continues the buffer that ends at `end`, up to padding of whole elements.
bool continues(const std::byte* end, const Tensor& next, DType dtype) {
  const std::ptrdiff_t gap = static_cast<const std::byte*>(next.data) - end;
  return next.dtype == dtype && gap >= 0 && gap <= kLargestGap &&
         gap % static_cast<std::ptrdiff_t>(size_of(dtype)) == 0;
}

void all_reduce_accumulators(Communicator& communicator, const KernelArgs& args) {
  const auto tensors = args.out;
  for (std::size_t first = 0, behind; first < tensors.size(); first = behind) {
    auto* begin = static_cast<std::byte*>(tensors[first].data);
    const DType dtype = tensors[first].dtype;
    std::byte* end = begin + tensors[first].bytes();
    behind = first + 1;
    for (; behind < tensors.size() && continues(end, tensors[behind], dtype); ++behind)
      end = static_cast<std::byte*>(tensors[behind].data) + tensors[behind].bytes();
    const auto elements = static_cast<int64_t>(static_cast<std::size_t>(end - begin) / size_of(dtype));
    communicator.all_reduce({begin, {elements}, dtype}, ReduceOp::kSum, args.stream);
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
  add(table, "all_gather", lookup, [](Communicator& communicator, const KernelArgs& args) {
    communicator.all_gather(args.in[0], args.out[0], args.stream);
  });
  add(table, "reduce_scatter", lookup, [](Communicator& communicator, const KernelArgs& args) {
    communicator.reduce_scatter(args.in[0], args.out[0], args.stream);
  });
  add(table, "all_reduce_accumulators", lookup, all_reduce_accumulators);
}

}  // namespace recollect
