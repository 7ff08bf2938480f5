// GemmWithGelu on cuBLASLt: a product whose epilogue is GELU, also writing the values before it, or GELU's
// derivative.
#include <optional>

#include "engine/ops/cuda/cublas_ending.h"
#include "engine/ops/cuda/gemm_gelu.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

class GemmWithGelu::Impl {
 public:
  Impl(const GemmShape& shape, Libraries* libraries) : shape_(shape), libraries_(libraries) {
    require(shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.in == shape.out && !shape.accumulates,
            "a product with GELU is one of activations");
  }

  std::size_t workspace_bytes() const { return workspace_bytes_of(shape_); }

  bool prepare(const void* a, const void* b, void* out, void* pre, void* workspace, void* stream,
               const std::function<void()>& apart) {
    require(libraries_, "a product that is only planned is prepared");
    if (!ends_with_gelu(shape_)) return false;
    Cublas& cublas = libraries_->cublas();
    problem_.emplace(shape_, cublas);
    problem_->end_with_gelu(pre);
    const GemmWorkspace places(shape_, workspace);
    const GemmOperands operands{.a = a,
                                .b = b,
                                .out = out,
                                .bias = places.bias(),
                                .workspace = places.of_library(),
                                .stream = stream};
    if (shape_.biased) cublas.trials().fill(places.bias(), shape_.out, shape_.n, stream);
    cublas.trials().fill(pre, shape_.out, shape_.m * shape_.n, stream);
    const std::size_t bytes = static_cast<std::size_t>(shape_.m * shape_.n) * size_of(shape_.out);
    std::vector<Ending::Written> written{{out, bytes}};
    if (shape_.biased) written.push_back({pre, bytes});
    const char* ending = shape_.biased ? " gelu" : " gelu gradient";
    algorithm_ = choose_ending(cublas, gemm_key(cublas.context(), shape_) + ending,
                               {.shape = shape_,
                                .problem = *problem_,
                                .operands = operands,
                                .written = std::move(written),
                                .apart = apart});
    return algorithm_ != kApart;
  }

  void run(const void* a, const void* b, void* out, const float* bias, void* pre, void* workspace,
           void* stream) {
    require(problem_.has_value() && algorithm_ != kApart, "a product ends with GELU, unprepared for it");
    require((bias != nullptr) == shape_.biased, "a product is not run as it was made");
    Cublas& cublas = libraries_->cublas();
    const GemmWorkspace places(shape_, workspace);
    problem_->end_with_gelu(pre);
    cublas.check(problem_->run(algorithm_,
                               {.a = a,
                                .b = b,
                                .out = out,
                                .bias = places.rounded(bias, cublas, stream),
                                .workspace = places.of_library(),
                                .stream = stream},
                               false),
                 "computing a product and GELU");
  }

 private:
  GemmShape shape_;
  Libraries* libraries_;
  std::optional<CublasProblem> problem_;
  GemmAlgorithm algorithm_ = kApart;
};

GemmWithGelu::GemmWithGelu(const GemmShape& shape, Libraries* libraries)
    : impl_(std::make_unique<Impl>(shape, libraries)) {}
GemmWithGelu::~GemmWithGelu() = default;
GemmWithGelu::GemmWithGelu(GemmWithGelu&&) noexcept = default;
GemmWithGelu& GemmWithGelu::operator=(GemmWithGelu&&) noexcept = default;

std::size_t GemmWithGelu::workspace_bytes() const { return impl_->workspace_bytes(); }

bool GemmWithGelu::prepare(const void* a, const void* b, void* out, void* pre, void* workspace, void* stream,
                           const std::function<void()>& apart) {
  return impl_->prepare(a, b, out, pre, workspace, stream, apart);
}

void GemmWithGelu::run(const void* a, const void* b, void* out, const float* bias, void* pre, void* workspace,
                       void* stream) {
  impl_->run(a, b, out, bias, pre, workspace, stream);
}

}  // namespace recollect::cuda
