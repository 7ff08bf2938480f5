#include "checkpointing/residency_ops.h"

#include <algorithm>
#include <cstring>

namespace recollect {

namespace {

constexpr const char* kDims[] = {"dim0", "dim1", "dim2", "dim3"};

int64_t part_elements(int64_t elements, int64_t size) { return (elements + size - 1) / size; }

Shape whole_shape(const Attributes& attributes) {
  Shape shape;
  for (const char* dim : kDims) {
    const int64_t d = attributes.integer(dim);
    if (d == 0) break;
    switch (shape.rank()) {
      case 0:
        shape = {d};
        break;
      case 1:
        shape = {shape[0], d};
        break;
      case 2:
        shape = {shape[0], shape[1], d};
        break;
      default:
        shape = {shape[0], shape[1], shape[2], d};
        break;
    }
  }
  return shape;
}

std::vector<OutputSpec> infer_slice(const OpView& v) {
  const int64_t size = v.attributes().integer("size");
  return {{.shape = {part_elements(v.in(0).shape.elements(), size)},
           .dtype = v.in(0).dtype,
           .placement = Placement::kSharded}};
}

std::vector<OutputSpec> infer_gather(const OpView& v) {
  const Shape shape = whole_shape(v.attributes());
  const int64_t size = v.attributes().integer("size");
  require(v.in(0).shape == Shape{part_elements(shape.elements(), size)},
          v.op.name + ": the part has another size");
  return {{.shape = shape, .dtype = v.in(0).dtype}};
}

std::vector<OutputSpec> infer_copy(const OpView& v, MemorySpace space) {
  return {{.shape = v.in(0).shape, .dtype = v.in(0).dtype, .placement = v.in(0).placement, .space = space}};
}

Cost copy_cost(const OpView& v) {
  const auto bytes = static_cast<double>(v.in(0).bytes());
  return {.bytes = 2 * bytes, .link_bytes = bytes};
}

Cost slice_cost(const OpView& v) { return {.bytes = 2 * static_cast<double>(v.out(0).bytes())}; }

Cost gather_cost(const OpView& v) {
  const auto bytes = static_cast<double>(v.out(0).bytes()),
             size = static_cast<double>(v.attributes().integer("size"));
  return {.bytes = 2 * bytes, .link_bytes = bytes * (size - 1) / size};
}

class Slice final : public Kernel {
 public:
  explicit Slice(int rank) : rank_(rank) {}

  void run(const KernelArgs& args) override {
    const Tensor &whole = args.in[0], &part = args.out[0];
    const std::size_t begin = std::min(rank_ * part.bytes(), whole.bytes());
    const std::size_t length = std::min(part.bytes(), whole.bytes() - begin);
    std::memcpy(part.data, static_cast<const std::byte*>(whole.data) + begin, length);
    std::memset(static_cast<std::byte*>(part.data) + length, 0, part.bytes() - length);
  }

 private:
  std::size_t rank_;
};

// Gathers straight into the value where the parts fit it, otherwise through padded workspace.
class Gather final : public Kernel {
 public:
  Gather(const OpView& view, Communicator& communicator)
      : communicator_(communicator),
        padded_(view.in(0).bytes() * communicator.size()),
        direct_(padded_ == view.out(0).bytes()) {}

  std::size_t workspace_bytes() const override { return direct_ ? 0 : padded_; }

  void run(const KernelArgs& args) override {
    const Tensor &part = args.in[0], &whole = args.out[0];
    const Shape flat{part.elements() * communicator_.size()};
    communicator_.all_gather(part, {direct_ ? whole.data : args.workspace, flat, part.dtype}, args.stream);
    if (!direct_) std::memcpy(whole.data, args.workspace, whole.bytes());
  }

 private:
  Communicator& communicator_;
  std::size_t padded_;
  bool direct_;
};

void copy(const KernelArgs& args, const Attributes&) {
  std::memcpy(args.out[0].data, args.in[0].data, args.in[0].bytes());
}

}  // namespace

Attributes gather_attributes(const Value& value, int64_t size) {
  Attributes attributes{{"size", size}};
  for (int i = 0; i < Shape::kMaxRank; ++i)
    attributes.set(kDims[i], i < value.shape.rank() ? value.shape[i] : int64_t{0});
  return attributes;
}

void register_checkpointing_ops(OpRegistry& registry) {
  registry.add({.name = "checkpoint_slice", .infer = infer_slice, .cost = slice_cost});
  registry.add({.name = "checkpoint_gather", .infer = infer_gather, .cost = gather_cost});
  registry.add({.name = "copy_to_host",
                .infer = [](const OpView& v) { return infer_copy(v, MemorySpace::kHost); },
                .cost = copy_cost});
  registry.add({.name = "copy_to_device",
                .infer = [](const OpView& v) { return infer_copy(v, MemorySpace::kDevice); },
                .cost = copy_cost});
}

void register_checkpointing_kernels(KernelTable& table, const CommunicatorLookup& lookup) {
  table.add("checkpoint_slice", [lookup](const OpView&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Slice>(lookup("tensor", StreamId::kCompute).rank());
  });
  table.add("checkpoint_gather", [lookup](const OpView& view) -> std::unique_ptr<Kernel> {
    return std::make_unique<Gather>(view, lookup("tensor", view.op.stream));
  });
  table.add("copy_to_host", copy);
  table.add("copy_to_device", copy);
}

}  // namespace recollect
