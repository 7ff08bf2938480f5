#include "tests/gpu/emulation/backend.h"

#include "engine/ops/cuda/attention_padding.h"
#include "engine/ops/ops.h"
#include "engine/runtime/cuda/enqueue.h"
#include "tests/gpu/emulation/grid.h"

namespace recollect::emulation {

namespace {

// Of the host's state a kernel may use no more than whether this is an evaluation: the rest is another run's.
RunState misleading(const RunState& state) {
  return {.seed = ~state.seed,
          .step = state.step + 13,
          .micro_batch = state.micro_batch + 5,
          .micro_batches = state.micro_batches + 7,
          .first_sample = state.first_sample + 11,
          .token_stride = state.token_stride + 1,
          .training = state.training};
}

class Emulated : public Kernel {
 public:
  explicit Emulated(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  bool overwrites_to_prepare() const override { return kernel_->overwrites_to_prepare(); }
  void prepare(const KernelArgs& args) override {
    kernel_->prepare(args);
    prepared_ = true;
  }

  void run(const KernelArgs& args) override {
    require(prepared_, "a kernel is prepared before it runs");
    const RunState device_state = *args.state, host_state = misleading(device_state);
    KernelArgs device_args = args;
    device_args.state = &host_state;
    device_args.device_state = &device_state;
    set_order(runs_++ % 2 == 0 ? Order::kForward : Order::kBackward);
    kernel_->run(device_args);
    kernel_->check(device_state);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  bool prepared_ = false;
  int64_t runs_ = 0;
};

}  // namespace

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary) {
  OpRegistry registry;
  register_engine_ops(registry);
  const auto kernels = std::make_shared<KernelTable>();
  cuda::register_kernels(*kernels, vocabulary, nullptr);
  for (const OpDef* def : registry.all())
    table.add(def->name,
              [kernels](const OpView& view) { return std::make_unique<Emulated>(kernels->make(view)); });
}

void convert(const Tensor& from, const Tensor& to) { cuda::convert(from, to, nullptr); }
void hash_bytes(const void* data, std::size_t bytes, int64_t* hash) {
  cuda::hash_bytes(data, bytes, hash, nullptr);
}

void write_query_lengths(int64_t samples, int64_t length, int32_t* out) {
  cuda::write_query_lengths(samples, length, out, nullptr);
}
void clear_unseen_keys(const AttentionShape& shape, const int32_t* lengths, const Tensor& gradients) {
  cuda::clear_unseen_keys(shape, lengths, gradients, nullptr);
}

}  // namespace recollect::emulation
