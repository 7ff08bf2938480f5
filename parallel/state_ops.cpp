#include "parallel/state_ops.h"

#include <cmath>
#include <exception>
#include <string>
#include <utility>
#include <vector>

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

std::vector<OutputSpec> infer_host_update(const OpView& v) {
  v.attributes().text("rule");  // throws where it is missing
  const Value& gradient = v.in(2);
  std::vector<OutputSpec> specs;
  for (int i = 0; i < static_cast<int>(v.op.outputs.size()); ++i) {
    require(v.out(i).space == MemorySpace::kHost, v.op.name + ": what the host updates is in its memory");
    specs.push_back({.shape = gradient.shape, .dtype = v.out(i).dtype, .space = MemorySpace::kHost});
  }
  require(gradient.space == MemorySpace::kHost && specs.size() >= 3,
          v.op.name + ": the host updates a master, states and a parameter by a gradient in its memory");
  return specs;
}

// Memory alone: the gradient is read, the master and the states are read and written, the parameter is written.
Cost host_update_cost(const OpView& v) {
  const int last = static_cast<int>(v.op.outputs.size()) - 1;
  auto bytes = static_cast<double>(v.in(2).bytes() + v.out(last).bytes());
  for (int i = 0; i < last; ++i) bytes += 2 * static_cast<double>(v.out(i).bytes());
  return {.bytes = bytes};
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

// What the rule's kernel does, when all earlier work of the stream is done. It cannot throw there.
class HostUpdate final : public Kernel {
 public:
  explicit HostUpdate(std::unique_ptr<Kernel> rule) : rule_(std::move(rule)) {
    require(rule_->workspace_bytes() == 0, "an update on the host has no workspace");
  }

  void prepare(const KernelArgs& args) override {
    in_.assign(args.in.begin(), args.in.end());
    out_.assign(args.out.begin(), args.out.end());
  }

  void run(const KernelArgs& args) override {
    call_on_host([](void* self) { static_cast<HostUpdate*>(self)->update(); }, this, args.stream);
    if (!args.stream) check(*args.state);
  }

  void check(const RunState&) override {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void update() noexcept {
    try {
      if (std::isnan(
              *in_[1].as<double>()))  // left out: what lies in the parameter's place is another chunk's
        convert(out_.front(), out_.back(), nullptr);
      else
        rule_->run({.in = in_, .out = out_});
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::unique_ptr<Kernel> rule_;
  std::vector<Tensor> in_, out_;
  std::exception_ptr error_;
};

// The rule's op in place of this one has the same operands and attributes.
std::unique_ptr<Kernel> make_host_update(const OpView& view, const KernelTable& host) {
  OpDef rule{.name = view.attributes().text("rule")};
  Op op = view.op;
  op.def = &rule;
  return std::make_unique<HostUpdate>(host.make({view.graph, op}));
}

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
  registry.add(
      {.name = "host_update", .infer = infer_host_update, .cost = host_update_cost, .unit = Unit::kHost});
  registry.add({.name = "await_updates",
                .infer = [](const OpView&) { return std::vector<OutputSpec>{}; },
                .names_alone = true});
}

void register_state_kernels(KernelTable& table, DiskStore* disk, std::shared_ptr<const KernelTable> host) {
  add_kernel(table, "fetch_state", false, disk);
  add_kernel(table, "store_state", true, disk);
  table.add("host_update", [host = std::move(host)](const OpView& view) -> std::unique_ptr<Kernel> {
    require(host != nullptr, view.op.name + ": there are no kernels of the host's processor");
    return make_host_update(view, *host);
  });
  table.add("await_updates", [](const KernelArgs&, const Attributes&) {});
}

}  // namespace recollect
