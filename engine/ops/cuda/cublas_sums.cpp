// GemmWithSums on cuBLASLt: the product's epilogue sums its second operand over k.
#include <optional>

#include "engine/ops/cuda/cublas_ending.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

void* aligned_workspace(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return static_cast<std::byte*>(workspace) + (kGemmAlignment - address % kGemmAlignment);
}

}  // namespace

class GemmWithSums::Impl {
 public:
  Impl(const GemmShape& shape, Libraries* libraries) : shape_(shape), libraries_(libraries) {
    require(shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.out == DType::kF32 && !shape.biased,
            "a product with sums is one of f32 gradients");
  }

  bool prepare(const GemmOperands& operands, float* sums, const std::function<void()>& apart) {
    require(libraries_, "a product that is only planned is prepared");
    Cublas& cublas = libraries_->cublas();
    problem_.emplace(shape_, cublas);
    problem_->write_sums(sums);
    const auto bytes = [](int64_t elements) { return sizeof(float) * static_cast<std::size_t>(elements); };
    algorithm_ =
        choose_ending(cublas, gemm_key(cublas.context(), shape_) + " sums",
                      {.shape = shape_,
                       .problem = *problem_,
                       .operands = operands,
                       .written = {{operands.out, bytes(shape_.m * shape_.n)}, {sums, bytes(shape_.m)}},
                       .apart = apart});
    return algorithm_ != kApart;
  }

  void run(const GemmOperands& operands, float* sums, bool accumulate) {
    require(problem_.has_value() && algorithm_ != kApart,
            "a product makes sums that it was not prepared for");
    problem_->write_sums(sums);
    libraries_->cublas().check(problem_->run(algorithm_, operands, accumulate),
                               "computing a product and its sums");
  }

 private:
  GemmShape shape_;
  Libraries* libraries_;
  std::optional<CublasProblem> problem_;
  GemmAlgorithm algorithm_ = kApart;
};

GemmWithSums::GemmWithSums(const GemmShape& shape, Libraries* libraries)
    : impl_(std::make_unique<Impl>(shape, libraries)) {}
GemmWithSums::~GemmWithSums() = default;
GemmWithSums::GemmWithSums(GemmWithSums&&) noexcept = default;
GemmWithSums& GemmWithSums::operator=(GemmWithSums&&) noexcept = default;

std::size_t GemmWithSums::workspace_bytes() const { return workspace_bytes_with_sums(); }

bool GemmWithSums::prepare(const void* a, const void* b, void* out, float* sums, void* workspace,
                           void* stream, const std::function<void()>& apart) {
  return impl_->prepare({a, b, out, nullptr, aligned_workspace(workspace), stream}, sums, apart);
}

void GemmWithSums::run(const void* a, const void* b, void* out, float* sums, bool accumulate, void* workspace,
                       void* stream) {
  impl_->run({a, b, out, nullptr, aligned_workspace(workspace), stream}, sums, accumulate);
}

}  // namespace recollect::cuda
