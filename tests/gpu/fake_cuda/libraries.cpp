// What cuBLASLt does for the cuda backend, in plain loops, enqueued as its products are; and the backend's hold of
// NVIDIA's libraries, which are none.
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/core/error.h"
#include "engine/core/float8.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda/faster.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/gemm_gelu.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "engine/ops/cuda/gemm_workspace.h"
#include "engine/ops/cuda/libraries.h"
#include "engine/ops/cuda/versions.h"
#include "engine/runtime/cuda/check.h"
#include "tests/gpu/fake_cuda/world.h"

namespace recollect::cuda {

namespace {

// To the 10 bits of tf32's fraction.
float tf32(float x) {
  return std::isnan(x) ? x : std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & ~0x1FFFu);
}

double element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return static_cast<const bf16*>(data)[i];
    case DType::kE4M3:
      return static_cast<const e4m3*>(data)[i];
    case DType::kE5M2:
      return static_cast<const e5m2*>(data)[i];
    default:
      require(dtype == DType::kF16, "products are of f32, bf16, f16, e4m3 and e5m2");
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

// Work on a cudaStream_t, or at once.
template <typename Function>
void enqueue_product(void* stream, Function work) {
  check(fake_cuda::enqueue(static_cast<cudaStream_t>(stream), std::move(work)), "a product");
}

}  // namespace

// What a rank has asked of it, and what it will be told.
class Cublas {
 public:
  bool tf32 = false;
  std::string warning = {};
};

class Gemm::Impl {
 public:
  Impl(const GemmShape& shape, bool rounds) : shape_(shape), rounds_(rounds && shape.in == DType::kF32) {}

  const GemmShape& shape() const { return shape_; }

  void run(const void* a, const void* b, void* out, const void* bias, bool accumulate,
           const GemmScales& scales) const {
    const auto& [m, n, k, transpose_a, transpose_b, in, to, accumulates, biased, second, beside] = shape_;
    require(!accumulate || accumulates, "this product adds into nothing");
    require(!is_float8(in) || (scales.a && scales.b && transpose_b && !transpose_a && k % 16 == 0),
            "codes have scales, and lie as the device multiplies them");
    const double scale = is_float8(in) ? double{*scales.a} * double{*scales.b} : 1.0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t)
          sum += operand(a, in, transpose_a ? t * m + i : i * k + t) *
                 operand(b, shape_.type_of_b(), transpose_b ? j * k + t : t * n + j);
        sum = sum * scale + (bias ? static_cast<const float*>(bias)[j] : 0.0);
        if (accumulate) sum += element(out, to, i * n + j);
        set_element(out, to, i * n + j, sum);
      }
    }
  }

 private:
  double operand(const void* data, DType dtype, int64_t i) const {
    const double exact = element(data, dtype, i);
    return rounds_ ? tf32(static_cast<float>(exact)) : exact;
  }

  GemmShape shape_;
  bool rounds_;
};

Gemm::Gemm(const GemmShape& shape, Libraries* libraries)
    : impl_(std::make_unique<Impl>(shape, libraries && libraries->cublas().tf32)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
std::size_t library_workspace_bytes() { return 64; }  // enough for loops
std::size_t Gemm::workspace_bytes() const { return workspace_bytes_of(impl_->shape()); }

// As on a device, the operands are overwritten.
void Gemm::prepare(const void*, const void*, void* out, void* workspace, void* stream) {
  enqueue_product(stream, [=, bytes = workspace_bytes()] {
    std::memset(out, 0xFF, 1);
    std::memset(workspace, 0xFF, bytes);
  });
}

void Gemm::run(const void* a, const void* b, void* out, const void* bias, bool accumulate, void* workspace,
               void* stream, const GemmScales& scales) {
  enqueue_product(stream, [=, impl = impl_.get(), bytes = workspace_bytes()] {
    std::memset(workspace, 0xFF, bytes);
    impl->run(a, b, out, bias, accumulate, scales);
  });
}

// A product, and the sums beside it. It is always taken.
class GemmWithSums::Impl {
 public:
  Impl(const GemmShape& shape, Libraries* libraries) : shape(shape), product(shape, libraries) {}

  GemmShape shape;
  Gemm product;
};

GemmWithSums::GemmWithSums(const GemmShape& shape, Libraries* libraries)
    : impl_(std::make_unique<Impl>(shape, libraries)) {}
GemmWithSums::~GemmWithSums() = default;
GemmWithSums::GemmWithSums(GemmWithSums&&) noexcept = default;
GemmWithSums& GemmWithSums::operator=(GemmWithSums&&) noexcept = default;
std::size_t GemmWithSums::workspace_bytes() const { return workspace_bytes_with_sums(); }

bool GemmWithSums::prepare(const void* a, const void* b, void* out, float* sums, void* workspace,
                           void* stream, const std::function<void()>&) {
  impl_->product.prepare(a, b, out, workspace, stream);
  enqueue_product(stream, [sums] { std::memset(sums, 0xFF, sizeof(float)); });
  return true;
}

void GemmWithSums::run(const void* a, const void* b, void* out, float* sums, bool accumulate, void* workspace,
                       void* stream) {
  impl_->product.run(a, b, out, nullptr, accumulate, workspace, stream);
  enqueue_product(stream, [=, shape = impl_->shape] {
    for (int64_t i = 0; i < shape.m; ++i) {
      double sum = 0;
      for (int64_t t = 0; t < shape.k; ++t)
        sum += element(a, shape.in, shape.transpose_a ? t * shape.m + i : i * shape.k + t);
      sums[i] = static_cast<float>(sum);
    }
  });
}

// Values and derivatives of GELU's tanh form are of sums that nothing has rounded. Taken where the library may have such products.
class GemmWithGelu::Impl {
 public:
  explicit Impl(const GemmShape& shape) : shape(shape) {}

  bool is_taken() const { return shape.in != DType::kF32 && shape.n % 8 == 0; }

  void run(const void* a, const void* b, void* out, const float* bias, void* pre) const {
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j) {
        const int64_t at = i * shape.n + j;
        double sum = bias ? double{bias[j]} : 0.0;
        for (int64_t t = 0; t < shape.k; ++t)
          sum += element(a, shape.in, i * shape.k + t) *
                 element(b, shape.in, shape.transpose_b ? j * shape.k + t : t * shape.n + j);
        if (bias) set_element(pre, shape.out, at, sum);
        set_element(out, shape.out, at,
                    bias ? sum * gate(sum).first : sum * derivative(element(pre, shape.out, at)));
      }
  }

  GemmShape shape;

 private:
  // GELU is x times it; and its derivative.
  static std::pair<double, double> gate(double x) {
    const double a = std::sqrt(2 / std::numbers::pi), t = std::tanh(a * (x + 0.044715 * x * x * x));
    return {0.5 * (1 + t), 0.5 * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x)};
  }
  static double derivative(double x) {
    const auto [value, slope] = gate(x);
    return value + x * slope;
  }
};

GemmWithGelu::GemmWithGelu(const GemmShape& shape, Libraries*) : impl_(std::make_unique<Impl>(shape)) {}
GemmWithGelu::~GemmWithGelu() = default;
GemmWithGelu::GemmWithGelu(GemmWithGelu&&) noexcept = default;
GemmWithGelu& GemmWithGelu::operator=(GemmWithGelu&&) noexcept = default;
std::size_t GemmWithGelu::workspace_bytes() const { return workspace_bytes_of(impl_->shape); }

bool GemmWithGelu::prepare(const void*, const void*, void* out, void* pre, void* workspace, void* stream,
                           const std::function<void()>& apart) {
  apart();
  enqueue_product(stream, [=, bytes = workspace_bytes()] {
    for (void* const operand : {out, pre}) std::memset(operand, 0xFF, 1);
    std::memset(workspace, 0xFF, bytes);
  });
  return impl_->is_taken();
}

void GemmWithGelu::run(const void* a, const void* b, void* out, const float* bias, void* pre, void* workspace,
                       void* stream) {
  enqueue_product(stream, [=, impl = impl_.get(), bytes = workspace_bytes()] {
    std::memset(workspace, 0xFF, bytes);
    impl->run(a, b, out, bias, pre);
  });
}

// Names are told apart by their letters: tests see both ways, and the same one for a name always. It is tried as on a device.
bool is_faster(Libraries*, const std::string& name, const std::function<void()>& one,
               const std::function<void()>&, void*) {
  one();
  unsigned letters = 0;
  for (const char c : name) letters += static_cast<unsigned char>(c);
  return letters % 3 != 0;
}

std::string versions() { return "fake CUDA"; }

Libraries::Libraries(LibrariesOptions options)  // NOLINT(performance-unnecessary-value-param)
    : cublas_(std::make_unique<Cublas>(options.tf32, fake_cuda::world().settings().warning)) {}
Libraries::~Libraries() = default;
std::string Libraries::learned() const { return "what the first rank chose"; }
void Libraries::learn(const std::string& text) {
  require(text == learned(), "choices arrive as they were");
  fake_cuda::World& w = fake_cuda::world();
  const fake_cuda::World::Lock lock = w.lock();
  ++w.learned;
}
std::vector<std::string> Libraries::take_warnings() {
  const std::string warning = std::exchange(cublas_->warning, "");
  return warning.empty() ? std::vector<std::string>() : std::vector{warning};
}
Cudnn& Libraries::cudnn() {
  if (!cudnn_) cudnn_ = std::make_unique<Cudnn>();
  return *cudnn_;
}

}  // namespace recollect::cuda
