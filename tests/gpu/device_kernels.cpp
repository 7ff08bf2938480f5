#include "tests/gpu/device_kernels.h"

#include <cstring>
#include <map>

#include "engine/ops/ops.h"
#include "engine/runtime/cuda/event.h"

namespace recollect::test {

namespace {

constexpr std::size_t kGuardBytes = 256;  // so that pieces keep the alignment that arenas give
constexpr int kGuardByte = 0x5A;

// A piece of host memory on the device, with guards on both sides.
class Copy {
 public:
  Copy(const void* host, std::size_t bytes) : bytes_(bytes) {
    cuda::check(cudaMalloc(&base_, bytes + 2 * kGuardBytes), "a test's memory");
    cuda::check(cudaMemset(base_, kGuardByte, bytes + 2 * kGuardBytes), "a test's memory");
    cuda::check(cudaMemcpy(data(), host, bytes, cudaMemcpyHostToDevice), "a test's memory");
    cuda::check(cudaDeviceSynchronize(), "a test's memory");  // the tests' streams do not wait for these
  }
  ~Copy() { cudaFree(base_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(base_) + kGuardBytes; }

  void take_back(void* host) const {
    std::vector<std::byte> bytes(bytes_ + 2 * kGuardBytes);
    cuda::check(cudaMemcpy(bytes.data(), base_, bytes.size(), cudaMemcpyDeviceToHost), "reading");
    std::memcpy(host, bytes.data() + kGuardBytes, bytes_);
    for (std::size_t i = 0; i < kGuardBytes; ++i)
      require(bytes[i] == std::byte{kGuardByte} && bytes[kGuardBytes + bytes_ + i] == std::byte{kGuardByte},
              "a kernel wrote beyond the ends of its memory");
  }

 private:
  void* base_ = nullptr;
  std::size_t bytes_;
};

// The operands of one call on the device. Values that share memory on the host share it there.
class Visit {
 public:
  Visit(const KernelArgs& host, std::size_t workspace_bytes) {
    for (const Tensor& t : host.in) in_.push_back(on_device(t));
    for (const Tensor& t : host.out) out_.push_back(on_device(t));
    args_ = host;
    args_.in = in_;
    args_.out = out_;
    args_.workspace = piece(host.workspace, workspace_bytes);
    state_ = *host.state;
    args_.device_state = reinterpret_cast<const RunState*>(piece(&state_, sizeof state_));
    misleading_ = {.seed = ~state_.seed, .step = state_.step + 13, .training = state_.training};
    args_.state = &misleading_;
    args_.stream = stream_.get();
  }

  const KernelArgs& args() const { return args_; }

  void end() {
    cuda::check(cudaStreamSynchronize(stream_.get()), "a kernel");
    for (const auto& [host, copy] : copies_) copy->take_back(const_cast<void*>(host));
  }

 private:
  std::byte* piece(const void* host, std::size_t bytes) {
    if (bytes == 0) return nullptr;
    std::unique_ptr<Copy>& copy = copies_[host];
    if (!copy) copy = std::make_unique<Copy>(host, bytes);
    return copy->data();
  }

  Tensor on_device(Tensor tensor) {
    if (tensor.defined()) tensor.data = piece(tensor.data, tensor.bytes());
    return tensor;
  }

  cuda::Stream stream_;
  std::map<const void*, std::unique_ptr<Copy>> copies_;
  std::vector<Tensor> in_, out_;
  RunState state_, misleading_;
  KernelArgs args_;
};

class OnDevice : public Kernel {
 public:
  explicit OnDevice(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }

  bool overwrites_to_prepare() const override { return kernel_->overwrites_to_prepare(); }
  void prepare(const KernelArgs& args) override {
    Visit visit(args, workspace_bytes());
    kernel_->prepare(visit.args());
    visit.end();
    prepared_ = true;
  }

  void run(const KernelArgs& args) override {
    require(prepared_, "a kernel is prepared before it runs");
    Visit visit(args, workspace_bytes());
    kernel_->run(visit.args());
    visit.end();
    kernel_->check(*args.state);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  bool prepared_ = false;
};

}  // namespace

void register_device_kernels(KernelTable& table, cuda::Libraries& libraries) {
  OpRegistry registry;
  register_engine_ops(registry);
  const auto kernels = std::make_shared<KernelTable>();
  cuda::register_kernels(*kernels, nullptr, &libraries);
  for (const OpDef* def : registry.all())
    table.add(def->name,
              [kernels](const OpView& view) { return std::make_unique<OnDevice>(kernels->make(view)); });
}

}  // namespace recollect::test
