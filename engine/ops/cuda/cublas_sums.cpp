// GemmWithSums on cuBLASLt, whose product then ends with the sums over k of its second operand.
#include <optional>

#include "engine/ops/cuda/cublas_problem.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

constexpr std::size_t kAlignmentOfWorkspace = 256;
constexpr GemmAlgorithm kApart{};  // stands for none: product and sums are two steps

void* aligned_workspace(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return static_cast<std::byte*>(workspace) + (kAlignmentOfWorkspace - address % kAlignmentOfWorkspace);
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
    const std::string key = gemm_key(cublas.context(), shape_) + " sums";
    const auto used = cublas.in_use().find(key);
    algorithm_ = used != cublas.in_use().end() ? used->second : choose(key, operands, sums, apart);
    cublas.in_use()[key] = algorithm_;
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
  GemmAlgorithm choose(const std::string& key, const GemmOperands& operands, float* sums,
                       const std::function<void()>& apart) {
    Cublas& cublas = libraries_->cublas();
    problem_->write_sums(sums);
    const auto stands = [&](const GemmAlgorithm& choice) {
      return choice == kApart || runs(choice, operands);
    };
    const std::optional<GemmAlgorithm> known = cublas.choices().find(key);
    if (known && stands(*known)) return *known;
    if (!cublas.timed()) return kApart;
    const GemmAlgorithm mine = fastest(operands, sums, apart);
    GemmAlgorithm kept = cublas.cache().settle(key, mine, known, cublas.warning());
    if (kept != mine && !stands(kept)) kept = cublas.cache().settle(key, mine, kept, cublas.warning());
    cublas.choices().set(key, kept);
    return kept;
  }

  bool runs(const GemmAlgorithm& algorithm, const GemmOperands& operands) const {
    return problem_->run(algorithm, operands, false) == CUBLAS_STATUS_SUCCESS;
  }

  // Of those that give the same bits twice.
  GemmAlgorithm fastest(const GemmOperands& operands, const float* sums,
                        const std::function<void()>& apart) const {
    const GemmTrials& trials = libraries_->cublas().trials();
    trials.fill(const_cast<void*>(operands.a), shape_.in, shape_.m * shape_.k, operands.stream);
    trials.fill(const_cast<void*>(operands.b), shape_.in, shape_.k * shape_.n, operands.stream);
    double least = trials.time(apart, operands.stream);
    GemmAlgorithm best = kApart;
    for (const GemmAlgorithm& algorithm : problem_->candidates()) {
      if (!runs(algorithm, operands)) continue;
      const double time = trials.time([&] { runs(algorithm, operands); }, operands.stream);
      if (time >= least || fingerprint(algorithm, operands, sums) != fingerprint(algorithm, operands, sums))
        continue;
      least = time;
      best = algorithm;
    }
    return best;
  }

  // Of what the product writes, and of its sums.
  std::pair<uint64_t, uint64_t> fingerprint(const GemmAlgorithm& algorithm, const GemmOperands& operands,
                                            const float* sums) const {
    const GemmTrials& trials = libraries_->cublas().trials();
    runs(algorithm, operands);
    const auto of = [&](const void* data, int64_t elements) {
      return trials.fingerprint(data, sizeof(float) * static_cast<std::size_t>(elements), operands.workspace,
                                operands.stream);
    };
    const uint64_t product = of(operands.out, shape_.m * shape_.n);
    return {product, of(sums, shape_.m)};
  }

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

std::size_t GemmWithSums::workspace_bytes() const { return kAlignmentOfWorkspace + kCublasWorkspace; }

bool GemmWithSums::prepare(const void* a, const void* b, void* out, float* sums, void* workspace,
                           void* stream, const std::function<void()>& apart) {
  return impl_->prepare({a, b, out, nullptr, aligned_workspace(workspace), stream}, sums, apart);
}

void GemmWithSums::run(const void* a, const void* b, void* out, float* sums, bool accumulate, void* workspace,
                       void* stream) {
  impl_->run({a, b, out, nullptr, aligned_workspace(workspace), stream}, sums, accumulate);
}

}  // namespace recollect::cuda
