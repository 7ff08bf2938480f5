// What NVIDIA's libraries do for the cuda backend, in plain loops: matrix products. There is no fused
// attention, so that the backend's own runs in every dtype.
#include <cstdlib>
#include <cstring>

#include "engine/core/error.h"
#include "engine/ops/cuda/attention_fused.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/runtime/cuda/enqueue.h"

namespace recollect::cuda {

namespace {

double element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return static_cast<const bf16*>(data)[i];
    default:
      require(dtype == DType::kF16, "products are of f32, bf16 and f16");
      return static_cast<const f16*>(data)[i];
  }
}

void set_element(void* data, DType dtype, int64_t i, double value) {
  const auto number = static_cast<float>(value);
  if (dtype == DType::kF32)
    static_cast<float*>(data)[i] = number;
  else if (dtype == DType::kBF16)
    static_cast<bf16*>(data)[i] = bf16(number);
  else
    static_cast<f16*>(data)[i] = f16(number);
}

}  // namespace

class Gemm::Impl {
 public:
  explicit Impl(const GemmShape& shape) : shape_(shape) {}

  void run(const void* a, const void* b, void* out, const void* bias, bool accumulate) const {
    const auto& [m, n, k, transpose_a, transpose_b, in, to, accumulates, biased] = shape_;
    require(!accumulate || accumulates, "this product adds into nothing");
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias ? static_cast<const float*>(bias)[j] : 0.0;
        for (int64_t t = 0; t < k; ++t)
          sum += element(a, in, transpose_a ? t * m + i : i * k + t) *
                 element(b, in, transpose_b ? j * k + t : t * n + j);
        if (accumulate) sum += element(out, to, i * n + j);
        set_element(out, to, i * n + j, sum);
      }
    }
  }

 private:
  GemmShape shape_;
};

Gemm::Gemm(const GemmShape& shape, Libraries*) : impl_(std::make_unique<Impl>(shape)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
std::size_t Gemm::workspace_bytes() const { return 64; }

// As on a device, the operands are overwritten.
void Gemm::prepare(const void*, const void*, void* out, void* workspace, void*) {
  std::memset(out, 0xFF, 1);
  std::memset(workspace, 0xFF, workspace_bytes());
}

void Gemm::run(const void* a, const void* b, void* out, const void* bias, bool accumulate, void* workspace,
               void*) {
  std::memset(workspace, 0xFF, workspace_bytes());
  impl_->run(a, b, out, bias, accumulate);
}

KernelPointer make_fused_attention(const OpView&, Libraries*) { return nullptr; }
KernelPointer make_fused_attention_backward(const OpView&, Libraries*) { return nullptr; }

std::shared_ptr<void> make_host_cell(std::size_t bytes) { return {std::calloc(1, bytes), std::free}; }
void clear_bytes(void* to, std::size_t bytes, void*) { std::memset(to, 0, bytes); }

}  // namespace recollect::cuda
