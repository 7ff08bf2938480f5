#include "parallel/state_ops.h"

#include <string>
#include <utility>

#include "engine/runtime/enqueue.h"

namespace recollect {

namespace {

std::vector<OutputSpec> infer_fetch(const OpView& v) {
  const Value& kept = v.in(0);
  require(kept.space != MemorySpace::kDevice, v.op.name + ": what is fetched is on the device already");
  return {{.shape = kept.shape,
           .dtype = kept.dtype,
           .placement = kept.placement,
           .category = Category::kWorkspace}};
}

std::vector<OutputSpec> infer_store(const OpView& v) {
  const Value &from = v.in(0), &kept = v.out(0);
  require(kept.space != MemorySpace::kDevice, v.op.name + ": what is stored stays on the device");
  return {{.shape = from.shape, .dtype = from.dtype, .placement = kept.placement, .space = kept.space}};
}

Cost move_cost(const OpView& v) {
  const auto bytes = static_cast<double>(v.in(0).bytes());
  return {.bytes = 2 * bytes, .link_bytes = bytes};
}

class StateInHost final : public Kernel {
 public:
  void run(const KernelArgs& args) override {
    copy_bytes(args.out[0].data, args.in[0].data, args.in[0].bytes(), args.stream);
  }
};

// On one side the tensor's `data` is an offset in the file.
class StateOnDisk final : public Kernel {
 public:
  StateOnDisk(DiskStore& disk, std::string name, bool stores)
      : disk_(disk), name_(std::move(name)), stores_(stores) {}

  void run(const KernelArgs& args) override {
    require(!args.stream, name_ + ": only threads of the host read and write states on the disk");
    const Tensor &in = args.in[0], &out = args.out[0];
    auto* const ring = reinterpret_cast<std::byte*>(args.in[1].as<uint8_t>());
    if (stores_)
      disk_.write(name_, in.data, in.bytes(), reinterpret_cast<uint64_t>(out.data), ring);
    else
      disk_.read(name_, out.data, in.bytes(), reinterpret_cast<uint64_t>(in.data), ring);
  }

 private:
  DiskStore& disk_;
  std::string name_;
  bool stores_;
};

void add_kernel(KernelTable& table, const char* kind, bool stores, DiskStore* disk) {
  table.add(kind, [disk, stores](const OpView& view) -> std::unique_ptr<Kernel> {
    const Value& kept = stores ? view.out(0) : view.in(0);
    if (kept.space != MemorySpace::kDisk) return std::make_unique<StateInHost>();
    require(disk, view.op.name + ": there is no file for states");
    return std::make_unique<StateOnDisk>(*disk, kept.name, stores);
  });
}

}  // namespace

void register_state_ops(OpRegistry& registry) {
  registry.add({.name = "fetch_state", .infer = infer_fetch, .cost = move_cost, .unit = Unit::kCopy});
  registry.add({.name = "store_state", .infer = infer_store, .cost = move_cost, .unit = Unit::kCopy});
}

void register_state_kernels(KernelTable& table, DiskStore* disk) {
  add_kernel(table, "fetch_state", false, disk);
  add_kernel(table, "store_state", true, disk);
}

}  // namespace recollect
