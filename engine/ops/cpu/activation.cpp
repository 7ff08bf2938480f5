// Activations: bias + GELU, SwiGLU and GeGLU, tanh, ReLU, and their gradients, each in one pass over memory.
#include "engine/ops/cpu/activation.h"

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/gelu_form.h"

namespace recollect::cpu {

namespace {

// dx = dy * GELU'(x + bias), and dbias = the column sums of dx, which are collected while a row is written.
template <typename A, typename Form>
class BiasGeluBackward : public RowKernel {
 public:
  explicit BiasGeluBackward(const OpView& view) : RowKernel(view), sums_(threads_, rows_, width_) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    const float* bias = args.in[2].as<float>();
    A* dx = args.out[0].as<A>();
    sums_.run(args.workspace, args.out[1].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      const int64_t at = r * width_;
      write_each(dx + at, width_, [&](int64_t c) {
        const float g = load(dy[at + c]) * Form::derivative(load(x[at + c]) + bias[c]);
        sum[c] += g;
        return g;
      });
    });
  }

 private:
  ColumnSums sums_;
};

// The derivative of tanh is expressed by its result y.
struct OfTanh {
  static float value(float x) { return fast_tanh(x); }
  static float derivative(float y) { return (1.0f - y) * (1.0f + y); }
};
template <typename A>
using Tanh = Map<A, OfTanh>;
template <typename A>
using TanhBackward = MapBackward<A, OfTanh>;

// Its derivative is one of y.
struct OfRelu {
  static float value(float x) { return x < 0.0f ? 0.0f : x; }
  static float derivative(float y) { return y > 0.0f ? 1.0f : 0.0f; }
};
template <typename A>
using Relu = Map<A, OfRelu>;
template <typename A>
using ReluBackward = MapBackward<A, OfRelu>;

template <template <typename, typename> class K>
KernelPointer make_gelu(const OpView& view, const char* kind) {
  return with_activation_type(view.in(0).dtype, kind, [&]<typename A>() -> KernelPointer {
    if (is_erf_form(view.attributes())) return std::make_unique<K<A, GeluErf>>(view);
    return std::make_unique<K<A, GeluTanh>>(view);
  });
}

template <template <typename, typename> class K>
void add_gelu(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) { return make_gelu<K>(view, kind); });
}

}  // namespace

void register_activation(KernelTable& table) {
  add_gelu<BiasGelu>(table, "bias_gelu");
  add_gelu<BiasGeluBackward>(table, "bias_gelu_backward");
  add_gelu<Map>(table, "gelu");
  add_gelu<MapBackward>(table, "gelu_backward");
  add_kernel<Swiglu>(table, "swiglu");
  add_kernel<SwigluBackward>(table, "swiglu_backward");
  add_gelu<Geglu>(table, "geglu");
  add_gelu<GegluBackward>(table, "geglu_backward");
  add_kernel<Tanh>(table, "tanh");
  add_kernel<TanhBackward>(table, "tanh_backward");
  add_kernel<Relu>(table, "relu");
  add_kernel<ReluBackward>(table, "relu_backward");
}

}  // namespace recollect::cpu
