// oneDNN's matmul behind Gemm, for oneDNN 2.6 and 3.x. Primitives and their argument lists are built once;
// run() only sets addresses.
//
// oneDNN 2.6 reads a plain f32 B of shape [k, n] in place, and where a row of B is a multiple of the 4 KiB
// page its rows evict each other from the first-level cache: half the speed. There B is first reordered into
// oneDNN's own blocked layout, in the workspace.
#include "engine/ops/cpu/gemm.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/ops/cpu/amx_gemm.h"

namespace recollect::cpu {

namespace {

using dnnl::memory;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix(int64_t rows, int64_t columns, bool transposed, DType dtype) {
  return {{rows, columns}, dnnl_type(dtype), transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

bool reorder_pays(const GemmSpec& s) {
  return s.in == DType::kF32 && !s.transpose_b && s.m >= 256 && s.n * sizeof(float) % 4096 == 0;
}

class DnnlGemm {
 public:
  explicit DnnlGemm(const GemmSpec& spec) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::desc a = matrix(spec.m, spec.k, spec.transpose_a, spec.in);
    const memory::desc b = matrix(spec.k, spec.n, spec.transpose_b, spec.in);
    memory::desc b_used = b;
    if (reorder_pays(spec))
      b_used = memory::desc({spec.k, spec.n}, dnnl_type(spec.in), memory::format_tag::any);
    const memory::desc c = matrix(spec.m, spec.n, false, spec.out);
    overwrite_ = make_product(spec, a, b_used, c, false);
    if (overwrite_.b != b) {
      make_reorder(b, overwrite_.b);
      b_used = overwrite_.b;
    }
    if (spec.accumulates) add_ = make_product(spec, a, b_used, c, true);
  }

  std::size_t workspace_bytes() const {
    return packed_bytes_ + std::max({overwrite_.scratch_bytes, add_.scratch_bytes, reorder_.scratch_bytes});
  }

  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate, std::byte* workspace) {
    Product& product = accumulate ? add_ : overwrite_;
    require(static_cast<bool>(product.primitive), "a Gemm made without accumulation is asked to accumulate");
    std::byte* scratch = workspace + packed_bytes_;
    const void* b_used = b;
    if (packed_bytes_ > 0) {
      reorder_.execute(stream_,
                       {{DNNL_ARG_FROM, b}, {DNNL_ARG_TO, workspace}, {DNNL_ARG_SCRATCHPAD, scratch}});
      b_used = workspace;
    }
    product.execute(stream_, {{DNNL_ARG_SRC, a},
                              {DNNL_ARG_WEIGHTS, b_used},
                              {DNNL_ARG_DST, c},
                              {DNNL_ARG_BIAS, bias},
                              {DNNL_ARG_SCRATCHPAD, scratch}});
  }

 private:
  struct Product {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
    memory::desc b;
    std::size_t scratch_bytes = 0;

    void execute(dnnl::stream& stream, std::initializer_list<std::pair<int, const void*>> addresses) {
      for (const auto& [slot, address] : addresses) {
        const auto it = arguments.find(slot);
        if (it != arguments.end()) it->second.set_data_handle(const_cast<void*>(address));
      }
      primitive.execute(stream, arguments);
    }
  };

  memory unset(const memory::desc& desc) const { return memory(desc, engine_, nullptr); }

  Product make_product(const GemmSpec& spec, const memory::desc& a, const memory::desc& b,
                       const memory::desc& c, bool accumulate) const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const memory::desc bias = spec.bias
                                  ? memory::desc({1, spec.n}, memory::data_type::f32, memory::dims{spec.n, 1})
                                  : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
    const auto chosen = spec.bias ? dnnl::matmul::primitive_desc(engine_, a, b, bias, c, attributes)
                                  : dnnl::matmul::primitive_desc(engine_, a, b, c, attributes);
#else
    const auto what = spec.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(what, attributes, engine_);
#endif
    Product product;
    product.primitive = dnnl::matmul(chosen);
    product.b = chosen.weights_desc();
    product.scratch_bytes = padded(chosen.scratchpad_desc().get_size());
    product.arguments = {{DNNL_ARG_SRC, unset(chosen.src_desc())},
                         {DNNL_ARG_WEIGHTS, unset(chosen.weights_desc())},
                         {DNNL_ARG_DST, unset(chosen.dst_desc())},
                         {DNNL_ARG_SCRATCHPAD, unset(chosen.scratchpad_desc())}};
    if (spec.bias) product.arguments.emplace(DNNL_ARG_BIAS, unset(bias));
    return product;
  }

  void make_reorder(const memory::desc& from, const memory::desc& to) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc chosen(engine_, from, engine_, to, attributes);
    reorder_.primitive = dnnl::reorder(chosen);
    reorder_.scratch_bytes = padded(chosen.scratchpad_desc().get_size());
    reorder_.arguments = {{DNNL_ARG_FROM, unset(from)},
                          {DNNL_ARG_TO, unset(to)},
                          {DNNL_ARG_SCRATCHPAD, unset(chosen.scratchpad_desc())}};
    packed_bytes_ = padded(to.get_size());
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  Product overwrite_, add_, reorder_;
  std::size_t packed_bytes_ = 0;
};

}  // namespace

class Gemm::Impl {
 public:
  explicit Impl(const GemmSpec& spec) {
    if (AmxGemm::suits(spec))
      amx_ = std::make_unique<AmxGemm>(spec);
    else
      dnnl_ = std::make_unique<DnnlGemm>(spec);
  }

  std::size_t workspace_bytes() const { return amx_ ? amx_->workspace_bytes() : dnnl_->workspace_bytes(); }

  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate, std::byte* workspace) {
    if (amx_)
      amx_->run(a, b, c, bias, accumulate, workspace);
    else
      dnnl_->run(a, b, c, bias, accumulate, workspace);
  }

 private:
  std::unique_ptr<AmxGemm> amx_;
  std::unique_ptr<DnnlGemm> dnnl_;
};

Gemm::Gemm(const GemmSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

std::size_t Gemm::workspace_bytes() const { return impl_->workspace_bytes(); }

void Gemm::run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
               std::byte* workspace) {
  impl_->run(a, b, c, bias, accumulate, workspace);
}

}  // namespace recollect::cpu
