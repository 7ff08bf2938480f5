#include "checkpointing/residency_ops.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/runtime/enqueue.h"

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
           .placement = v.in(0).placement.and_over(kTensorAxis)}};
}

std::vector<OutputSpec> infer_gather(const OpView& v) {
  const Shape shape = whole_shape(v.attributes());
  const int64_t size = v.attributes().integer("size");
  require(v.in(0).shape == Shape{part_elements(shape.elements(), size)},
          v.op.name + ": the part has another size");
  return {{.shape = shape, .dtype = v.in(0).dtype, .placement = v.in(0).placement.but_not_over(kTensorAxis)}};
}

std::vector<OutputSpec> infer_copy(const OpView& v, MemorySpace space) {
  return {{.shape = v.in(0).shape, .dtype = v.in(0).dtype, .placement = v.in(0).placement, .space = space}};
}

std::vector<OutputSpec> infer_read(const OpView& v) {
  require(v.in(0).space == MemorySpace::kDisk, v.op.name + ": what is read is not on the disk");
  return infer_copy(v, v.attributes().text("to") == "host" ? MemorySpace::kHost : MemorySpace::kDevice);
}

std::vector<OutputSpec> infer_cast(const OpView& v, DType dtype) {
  return {{.shape = v.in(0).shape, .dtype = dtype, .placement = v.in(0).placement}};
}

DType unpacked_dtype(const Attributes& attributes) {
  return attributes.text("dtype") == "f64" ? DType::kF64 : DType::kF32;
}

Cost cast_cost(const OpView& v) { return {.bytes = static_cast<double>(v.in(0).bytes() + v.out(0).bytes())}; }

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
    copy_bytes(part.data, static_cast<const std::byte*>(whole.data) + begin, length, args.stream);
    clear_bytes(static_cast<std::byte*>(part.data) + length, part.bytes() - length, args.stream);
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
    if (!direct_) copy_bytes(whole.data, args.workspace, whole.bytes(), args.stream);
  }

 private:
  Communicator& communicator_;
  std::size_t padded_;
  bool direct_;
};

// On one side of the copy the tensor's `data` is an offset in the file.
class DiskCopy final : public Kernel {
 public:
  DiskCopy(DiskStore& disk, const OpView& view, bool writes)
      : disk_(disk), name_(writes ? view.in(0).name : view.out(0).name), writes_(writes) {}

  void prepare(const KernelArgs& args) override {
    in_ = args.in[0];
    out_ = args.out[0];
    ring_ = reinterpret_cast<std::byte*>(args.in[1].as<uint8_t>());
  }

  void run(const KernelArgs& args) override {
    call_on_host([](void* self) { static_cast<DiskCopy*>(self)->copy(); }, this, args.stream);
    if (!args.stream) check(*args.state);
  }

  void check(const RunState&) override {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void copy() noexcept {
    try {
      if (writes_)
        disk_.write(name_, in_.data, in_.bytes(), reinterpret_cast<uint64_t>(out_.data), ring_);
      else
        disk_.read(name_, out_.data, in_.bytes(), reinterpret_cast<uint64_t>(in_.data), ring_);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  DiskStore& disk_;
  std::string name_;
  bool writes_;
  Tensor in_, out_;
  std::byte* ring_ = nullptr;
  std::exception_ptr error_;
};

void cast(const KernelArgs& args, const Attributes&) { convert(args.in[0], args.out[0], args.stream); }

void copy(const KernelArgs& args, const Attributes&) {
  copy_bytes(args.out[0].data, args.in[0].data, args.in[0].bytes(), args.stream);
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
  registry.add(
      {.name = "checkpoint_gather", .infer = infer_gather, .cost = gather_cost, .unit = Unit::kCollective});
  registry.add({.name = "copy_to_host",
                .infer = [](const OpView& v) { return infer_copy(v, MemorySpace::kHost); },
                .cost = copy_cost,
                .unit = Unit::kCopy});
  registry.add({.name = "copy_to_device",
                .infer = [](const OpView& v) { return infer_copy(v, MemorySpace::kDevice); },
                .cost = copy_cost,
                .unit = Unit::kCopy});
  registry.add({.name = "write_to_disk",
                .infer = [](const OpView& v) { return infer_copy(v, MemorySpace::kDisk); },
                .cost = copy_cost,
                .unit = Unit::kCopy});
  registry.add({.name = "read_from_disk", .infer = infer_read, .cost = copy_cost, .unit = Unit::kCopy});
  registry.add({.name = "checkpoint_pack",
                .infer = [](const OpView& v) { return infer_cast(v, DType::kBF16); },
                .cost = cast_cost});
  registry.add({.name = "checkpoint_unpack",
                .infer = [](const OpView& v) { return infer_cast(v, unpacked_dtype(v.attributes())); },
                .cost = cast_cost});
}

void register_checkpointing_kernels(KernelTable& table, const CommunicatorLookup& lookup, DiskStore* disk) {
  table.add("checkpoint_slice", [lookup](const OpView&) -> std::unique_ptr<Kernel> {
    return std::make_unique<Slice>(lookup(kTensorAxis, StreamId::kCompute).rank());
  });
  table.add("checkpoint_gather", [lookup](const OpView& view) -> std::unique_ptr<Kernel> {
    return std::make_unique<Gather>(view, lookup(kTensorAxis, view.op.stream));
  });
  table.add("copy_to_host", copy);
  table.add("copy_to_device", copy);
  table.add("checkpoint_pack", cast);
  table.add("checkpoint_unpack", cast);
  if (!disk) return;
  for (const bool writes : {true, false})
    table.add(writes ? "write_to_disk" : "read_from_disk",
              [disk, writes](const OpView& view) -> std::unique_ptr<Kernel> {
                return std::make_unique<DiskCopy>(*disk, view, writes);
              });
}

}  // namespace recollect
