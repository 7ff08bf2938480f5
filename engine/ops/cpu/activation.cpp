// Activations: bias + GELU, SwiGLU and GeGLU, tanh, and their gradients, each in one pass over memory.
#include "engine/ops/cpu/activation.h"

#include "engine/ops/cpu/column_sums.h"

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

template <template <typename, typename> class K>
KernelPointer make_gelu(const OpView& view, const char* kind) {
  return with_activation_type(view.in(0).dtype, kind, [&]<typename A>() -> KernelPointer {
    if (view.attributes().text("form") == "erf") return std::make_unique<K<A, GeluErf>>(view);
    return std::make_unique<K<A, GeluTanh>>(view);
  });
}

}  // namespace

void register_activation(KernelTable& table) {
  table.add("bias_gelu", [](const OpView& view) { return make_gelu<BiasGelu>(view, "bias_gelu"); });
  table.add("bias_gelu_backward",
            [](const OpView& view) { return make_gelu<BiasGeluBackward>(view, "bias_gelu_backward"); });
  add_kernel<GeluBackward>(table, "gelu_backward");
  add_kernel<Swiglu>(table, "swiglu");
  add_kernel<SwigluBackward>(table, "swiglu_backward");
  add_kernel<Geglu>(table, "geglu");
  add_kernel<GegluBackward>(table, "geglu_backward");
  add_kernel<Tanh>(table, "tanh");
  add_kernel<TanhBackward>(table, "tanh_backward");
}

}  // namespace recollect::cpu
