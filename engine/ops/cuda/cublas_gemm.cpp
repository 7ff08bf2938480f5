// Gemm on cuBLASLt. The first product of a shape times the library's proposals on operands of its own size;
// what wins is written down (gemm_choices.h) and computes every product of the shape from then on.
#include <algorithm>
#include <optional>

#include "engine/ops/cuda/cublas_problem.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

std::string name_of(const GemmShape& s) {
  return "a product of [" + std::to_string(s.m) + ", " + std::to_string(s.k) + "] and [" +
         std::to_string(s.k) + ", " + std::to_string(s.n) + "] in " + std::string(recollect::name_of(s.in));
}

struct Candidate {
  GemmAlgorithm algorithm;
  double milliseconds;
};

// Chooses for one shape, with operands that may be overwritten.
class Choice {
 public:
  Choice(const GemmShape& shape, const CublasProblem& problem, Cublas& cublas, const GemmOperands& operands)
      : shape_(shape), problem_(problem), cublas_(cublas), operands_(operands) {}

  GemmAlgorithm make() {
    const std::string key = gemm_key(cublas_.context(), shape_);
    const std::optional<GemmAlgorithm> known = cublas_.choices().find(key);
    if (known && runs(*known)) return *known;
    if (!cublas_.timed()) return first_proposal();
    fill();
    const GemmAlgorithm mine = fastest();
    GemmAlgorithm kept = cublas_.cache().settle(key, mine, known, cublas_.warning());
    if (kept != mine && !runs(kept)) kept = cublas_.cache().settle(key, mine, kept, cublas_.warning());
    cublas_.choices().set(key, kept);
    return kept;
  }

 private:
  bool runs(const GemmAlgorithm& algorithm) const {
    return problem_.run(algorithm, operands_, false) == CUBLAS_STATUS_SUCCESS;
  }

  [[noreturn]] void give_up(const std::string& why) const {
    throw Error(ExitCode::kConfiguration, "cuBLASLt " + why + " " + name_of(shape_),
                "take another precision, or another version of cuBLASLt: RECOLLECT_NVIDIA_LIBRARIES=FOLDER");
  }

  GemmAlgorithm first_proposal() const {
    for (const GemmAlgorithm& algorithm : problem_.candidates())
      if (runs(algorithm)) return algorithm;
    give_up("has no algorithm for");
  }

  void fill() const {
    const GemmTrials& trials = cublas_.trials();
    trials.fill(const_cast<void*>(operands_.a), shape_.in, shape_.m * shape_.k, operands_.stream);
    trials.fill(const_cast<void*>(operands_.b), shape_.type_of_b(), shape_.k * shape_.n, operands_.stream);
  }

  // Of those that give the same bits twice. The library says that all do; here it is seen.
  GemmAlgorithm fastest() const {
    std::vector<Candidate> timed;
    for (const GemmAlgorithm& algorithm : problem_.candidates()) {
      if (!runs(algorithm)) continue;
      const double time = cublas_.trials().time([&] { runs(algorithm); }, operands_.stream);
      timed.push_back({algorithm, time});
    }
    if (timed.empty()) give_up("has no algorithm for");
    std::stable_sort(timed.begin(), timed.end(),
                     [](const Candidate& a, const Candidate& b) { return a.milliseconds < b.milliseconds; });
    for (const Candidate& candidate : timed)
      if (fingerprint(candidate.algorithm) == fingerprint(candidate.algorithm)) return candidate.algorithm;
    give_up("has no reproducible algorithm for");
  }

  uint64_t fingerprint(const GemmAlgorithm& algorithm) const {
    runs(algorithm);
    const std::size_t bytes = static_cast<std::size_t>(shape_.m * shape_.n) * size_of(shape_.out);
    return cublas_.trials().fingerprint(operands_.out, bytes, operands_.workspace, operands_.stream);
  }

  const GemmShape& shape_;
  const CublasProblem& problem_;
  Cublas& cublas_;
  const GemmOperands& operands_;
};

}  // namespace

class Gemm::Impl {
 public:
  Impl(const GemmShape& shape, Libraries* libraries) : shape_(shape), libraries_(libraries) {
    require(shape.m > 0 && shape.n > 0 && shape.k > 0, "a matrix product without elements");
    require(!(shape.biased && shape.accumulates), "a product that accumulates has no bias");
    require(!is_float8(shape.in) || (is_float8(shape.second) && shape.transpose_b && !shape.transpose_a),
            "8-bit codes are multiplied with a transposed matrix of such");
  }

  std::size_t workspace_bytes() const { return workspace_bytes_of(shape_); }

  void prepare(const void* a, const void* b, void* out, void* workspace, void* stream) {
    require(libraries_, "a product that is only planned is prepared");
    Cublas& cublas = libraries_->cublas();
    problem_.emplace(shape_, cublas);
    const std::string key = gemm_key(cublas.context(), shape_);
    const auto used = cublas.in_use().find(key);
    if (used != cublas.in_use().end()) {
      algorithm_ = used->second;
      return;
    }
    const GemmWorkspace places(shape_, workspace);
    const GemmOperands operands{.a = a,
                                .b = b,
                                .out = out,
                                .bias = places.bias(),
                                .workspace = places.of_library(),
                                .stream = stream};
    if (shape_.biased) cublas.trials().fill(places.bias(), shape_.out, shape_.n, stream);
    algorithm_ = Choice(shape_, *problem_, cublas, operands).make();
    cublas.in_use()[key] = algorithm_;
  }

  void run(const void* a, const void* b, void* out, const void* bias, bool accumulate, void* workspace,
           void* stream, const GemmScales& scales) {
    require(problem_.has_value(), "a product is run before it is prepared");
    require((bias != nullptr) == shape_.biased && (!accumulate || shape_.accumulates),
            "a product is not run as it was made");
    Cublas& cublas = libraries_->cublas();
    const GemmWorkspace places(shape_, workspace);
    const GemmOperands operands{.a = a,
                                .b = b,
                                .out = out,
                                .bias = places.rounded(bias, cublas, stream),
                                .workspace = places.of_library(),
                                .stream = stream,
                                .scales = scales};
    cublas.check(problem_->run(algorithm_, operands, accumulate), "computing " + name_of(shape_));
  }

 private:
  GemmShape shape_;
  Libraries* libraries_;
  std::optional<CublasProblem> problem_;
  GemmAlgorithm algorithm_{};
};

Gemm::Gemm(const GemmShape& shape, Libraries* libraries) : impl_(std::make_unique<Impl>(shape, libraries)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

std::size_t Gemm::workspace_bytes() const { return impl_->workspace_bytes(); }

void Gemm::prepare(const void* a, const void* b, void* out, void* workspace, void* stream) {
  impl_->prepare(a, b, out, workspace, stream);
}

void Gemm::run(const void* a, const void* b, void* out, const void* bias, bool accumulate, void* workspace,
               void* stream, const GemmScales& scales) {
  impl_->run(a, b, out, bias, accumulate, workspace, stream, scales);
}

}  // namespace recollect::cuda
