// Which blocks a product is made of. bf16's are those of AMX where the processor has it, else those of its bf16
// dot product where that pays, else vectors, which widen bf16 to f32.
#include "engine/ops/cpu/gemm.h"

#include <variant>

#include "engine/ops/cpu/amx_product.h"
#include "engine/ops/cpu/block_gemm.h"
#include "engine/ops/cpu/dot_product.h"
#include "engine/ops/cpu/dot_speed.h"
#include "engine/ops/cpu/vector_product.h"

namespace recollect::cpu {

namespace {

using Vectors = BlockGemm<VectorProduct<float>>;
using WidenedVectors = BlockGemm<VectorProduct<bf16>>;

#if defined(RECOLLECT_AMX)
using Tiles = BlockGemm<AmxProduct>;
using Dots = BlockGemm<DotProduct>;
using Implementation = std::variant<Vectors, WidenedVectors, Dots, Tiles>;
#elif defined(RECOLLECT_DOTS)
using Dots = BlockGemm<DotProduct>;
using Implementation = std::variant<Vectors, WidenedVectors, Dots>;
#else
using Implementation = std::variant<Vectors, WidenedVectors>;
#endif

Implementation choose(const GemmSpec& spec) {
  if (spec.in == DType::kF32) return Vectors(spec);
#ifdef RECOLLECT_AMX
  if (spec.units == Bf16Units::kFastest && amx::available()) return Tiles(spec);
#endif
#ifdef RECOLLECT_DOTS
  if (spec.units == Bf16Units::kDots || (spec.units == Bf16Units::kFastest && dots_pay())) return Dots(spec);
#endif
  return WidenedVectors(spec);
}

}  // namespace

class Gemm::Impl {
 public:
  explicit Impl(const GemmSpec& spec) : implementation_(choose(spec)) {}

  std::size_t workspace_bytes() const {
    return std::visit([](const auto& gemm) { return gemm.workspace_bytes(); }, implementation_);
  }

  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
           std::byte* workspace) const {
    std::visit([&](const auto& gemm) { gemm.run(a, b, c, bias, accumulate, workspace); }, implementation_);
  }

 private:
  Implementation implementation_;
};

Gemm::Gemm(const GemmSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

std::size_t Gemm::workspace_bytes() const { return impl_->workspace_bytes(); }

void Gemm::run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
               std::byte* workspace) const {
  impl_->run(a, b, c, bias, accumulate, workspace);
}

}  // namespace recollect::cpu
