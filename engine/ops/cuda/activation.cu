// Activations: bias + GELU, SwiGLU and GeGLU, tanh, ReLU, and their gradients, each in one pass over memory. A
// product with a GELU epilogue is a separate op (linear_gelu), because it has other bits than a GELU that is
// recomputed from the saved activation.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/gelu.h"
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/gelu_form.h"

namespace recollect::cuda {

namespace {

template <int N>
struct Two {
  Floats<N> first, second;
};

template <typename A, int N, typename Form>
struct BiasGeluBody {
  using Columns = OneVector<N>;
  using Operands = Floats<N>;
  static constexpr int kSums = 0, kRows = 2;

  const A* x;
  const float* bias;
  A* y;
  int64_t width;

  __device__ Floats<N> constants(int64_t unit) const { return load<N>(bias + unit * N); }
  __device__ Operands read(int64_t row, int64_t unit) const { return load<N>(x + row * width + unit * N); }
  __device__ void apply(int64_t row, int64_t unit, const Floats<N>& shift, const Operands& in,
                        float (*)[N]) const {
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = Form::value(in[i] + shift[i]);
    store<N>(y + row * width + unit * N, out);
  }
};

template <typename A, int N, typename Form>
struct BiasGeluBackwardBody {
  using Columns = OneVector<N>;
  using Operands = Two<N>;
  static constexpr int kSums = 1, kRows = 2;

  const A *dy, *x;
  const float* bias;
  A* dx;
  int64_t width;

  __device__ Floats<N> constants(int64_t unit) const { return load<N>(bias + unit * N); }
  __device__ Operands read(int64_t row, int64_t unit) const {
    const int64_t at = row * width + unit * N;
    return {load<N>(dy + at), load<N>(x + at)};
  }
  __device__ void apply(int64_t row, int64_t unit, const Floats<N>& shift, const Operands& in,
                        float (*sums)[N]) const {
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out[i] = in.first[i] * Form::derivative(in.second[i] + shift[i]);
      sums[0][i] += out[i];
    }
    store<N>(dx + row * width + unit * N, out);
  }
};

template <typename A, int N, typename Form>
class BiasGelu : public WalkKernel {
 public:
  explicit BiasGelu(const OpView& view) : WalkKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk(args, BiasGeluBody<A, N, Form>{args.in[0].as<A>(), args.in[1].as<float>(), args.out[0].as<A>(),
                                        walk_.width});
  }
};

template <typename A, int N, typename Form>
class BiasGeluBackward : public SumKernel {
 public:
  explicit BiasGeluBackward(const OpView& view) : SumKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk_and_sum(args,
                 BiasGeluBackwardBody<A, N, Form>{args.in[0].as<A>(), args.in[1].as<A>(),
                                                  args.in[2].as<float>(), args.out[0].as<A>(), walk_.width},
                 args.out[1]);
  }
};

// GELU of values that already include their bias, if any.
template <typename Form>
struct OfGelu : Form {
  static constexpr int kRows = 2;
};

// The derivative of tanh is expressed by its result y.
struct OfTanh {
  static constexpr int kRows = 1;
  static __device__ float value(float x) { return tanhf(x); }
  static __device__ float derivative(float y) { return (1.0f - y) * (1.0f + y); }
};
struct OfRelu {
  static constexpr int kRows = 2;
  static __device__ float value(float x) { return x < 0.0f ? 0.0f : x; }
  static __device__ float derivative(float y) { return y > 0.0f ? 1.0f : 0.0f; }
};

// y = value(x), element by element. Backward reads the argument of the form's derivative: x, or y for tanh.
template <typename A, int N, typename Form>
struct MapBody {
  using Columns = OneVector<N>;
  using Operands = Floats<N>;
  static constexpr int kSums = 0, kRows = Form::kRows;

  const A* x;
  A* y;
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const { return load<N>(x + row * width + unit * N); }
  __device__ void apply(int64_t row, int64_t unit, int, Operands in, float (*)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) in[i] = Form::value(in[i]);
    store<N>(y + row * width + unit * N, in);
  }
};

template <typename A, int N, typename Form>
struct MapBackwardBody {
  using Columns = OneVector<N>;
  using Operands = Two<N>;
  static constexpr int kSums = 0, kRows = Form::kRows;

  const A *dy, *x;
  A* dx;  // may be the same memory as dy or x
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const {
    const int64_t at = row * width + unit * N;
    return {load<N>(dy + at), load<N>(x + at)};
  }
  __device__ void apply(int64_t row, int64_t unit, int, const Operands& in, float (*)[N]) const {
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = in.first[i] * Form::derivative(in.second[i]);
    store<N>(dx + row * width + unit * N, out);
  }
};

// The gate's activation and its derivative.
struct Through {
  float value, derivative;
};
struct OfSilu {
  static __device__ float value(float gate) { return gate * sigmoid(gate); }
  static __device__ Through both(float gate) {
    const float s = sigmoid(gate), silu = gate * s;
    return {silu, s + silu * (1.0f - s)};
  }
};
template <typename Form>
struct OfGeluGate {
  static __device__ float value(float gate) { return Form::value(gate); }
  static __device__ Through both(float gate) { return {Form::value(gate), Form::derivative(gate)}; }
};

// y = activation(gate) * up. A row of x is gate | up, each of `width` elements.
template <typename A, int N, typename Gate>
struct GatedBody {
  using Columns = OneVector<N>;
  using Operands = Two<N>;
  static constexpr int kSums = 0, kRows = 2;

  const A* x;
  A* y;
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const {
    const int64_t at = 2 * row * width + unit * N;
    return {load<N>(x + at), load<N>(x + at + width)};
  }
  __device__ void apply(int64_t row, int64_t unit, int, const Operands& in, float (*)[N]) const {
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = Gate::value(in.first[i]) * in.second[i];
    store<N>(y + row * width + unit * N, out);
  }
};

// dgate = dy * up * activation'(gate), dup = dy * activation(gate).
template <typename A, int N, typename Gate>
struct GatedBackwardBody {
  using Columns = OneVector<N>;
  struct Operands {
    Floats<N> dy, gate, up;
  };
  static constexpr int kSums = 0, kRows = 1;

  const A *dy, *x;
  A* dx;  // may be the same memory as x
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const {
    const int64_t at = 2 * row * width + unit * N;
    return {load<N>(dy + row * width + unit * N), load<N>(x + at), load<N>(x + at + width)};
  }
  __device__ void apply(int64_t row, int64_t unit, int, const Operands& in, float (*)[N]) const {
    Floats<N> gate, up;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Through through = Gate::both(in.gate[i]);
      gate[i] = in.dy[i] * in.up[i] * through.derivative;
      up[i] = in.dy[i] * through.value;
    }
    const int64_t at = 2 * row * width + unit * N;
    store<N>(dx + at, gate);
    store<N>(dx + at + width, up);
  }
};

template <typename A, int N, typename Gate>
class Gated : public WalkKernel {
 public:
  explicit Gated(const OpView& view) : WalkKernel(view, view.out(0).shape[1], N) {}
  void run(const KernelArgs& args) override {
    walk(args, GatedBody<A, N, Gate>{args.in[0].as<A>(), args.out[0].as<A>(), walk_.width});
  }
};

template <typename A, int N, typename Gate>
class GatedBackward : public WalkKernel {
 public:
  explicit GatedBackward(const OpView& view) : WalkKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk(args, GatedBackwardBody<A, N, Gate>{args.in[0].as<A>(), args.in[1].as<A>(), args.out[0].as<A>(),
                                             walk_.width});
  }
};

template <typename A, int N, typename Form>
class Map : public WalkKernel {
 public:
  explicit Map(const OpView& view) : WalkKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk(args, MapBody<A, N, Form>{args.in[0].as<A>(), args.out[0].as<A>(), walk_.width});
  }
};

template <typename A, int N, typename Form>
class MapBackward : public WalkKernel {
 public:
  explicit MapBackward(const OpView& view) : WalkKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk(args, MapBackwardBody<A, N, Form>{args.in[0].as<A>(), args.in[1].as<A>(), args.out[0].as<A>(),
                                           walk_.width});
  }
};

template <typename A, int N, typename Form>
using GeluOf = Map<A, N, OfGelu<Form>>;
template <typename A, int N, typename Form>
using GeluBackwardOf = MapBackward<A, N, OfGelu<Form>>;
template <typename A, int N>
using Gelu = GeluOf<A, N, GeluTanh>;
template <typename A, int N>
using GeluBackward = GeluBackwardOf<A, N, GeluTanh>;
template <typename A, int N>
using Tanh = Map<A, N, OfTanh>;
template <typename A, int N>
using TanhBackward = MapBackward<A, N, OfTanh>;
template <typename A, int N>
using Relu = Map<A, N, OfRelu>;
template <typename A, int N>
using ReluBackward = MapBackward<A, N, OfRelu>;

template <typename A, int N>
using SwigluBackward = GatedBackward<A, N, OfSilu>;
template <typename A, int N, typename Form>
using GegluBackward = GatedBackward<A, N, OfGeluGate<Form>>;

// Vectors must not cross from gate to up, so the width of one half decides their length.
template <typename Gate>
KernelPointer make_gated(const OpView& view, const char* kind) {
  return with_row_vectors(
      view.in(0).dtype, view.out(0).shape[1], kind,
      [&]<typename A, int N>() -> KernelPointer { return std::make_unique<Gated<A, N, Gate>>(view); });
}

template <template <typename, int, typename> class K>
KernelPointer make_gelu(const OpView& view, const char* kind) {
  return with_row_vectors(view.in(0).dtype, view.in(0).shape[1], kind,
                          [&]<typename A, int N>() -> KernelPointer {
                            if (is_erf_form(view.attributes()))
                              return std::make_unique<K<A, N, GeluErf>>(view);
                            return std::make_unique<K<A, N, GeluTanh>>(view);
                          });
}

template <template <typename, int, typename> class K>
void add_gelu(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) { return make_gelu<K>(view, kind); });
}

}  // namespace

KernelPointer make_pass_of_gelu(const OpView& view) { return make_row_kernel<Gelu>(view, "linear_gelu"); }
KernelPointer make_pass_of_gelu_gradient(const OpView& view) {
  return make_row_kernel<GeluBackward>(view, "gelu_backward");
}

void register_activation(KernelTable& table) {
  add_gelu<BiasGelu>(table, "bias_gelu");
  add_gelu<BiasGeluBackward>(table, "bias_gelu_backward");
  add_gelu<GeluOf>(table, "gelu");
  add_gelu<GeluBackwardOf>(table, "gelu_backward");
  table.add("swiglu", [](const OpView& view) { return make_gated<OfSilu>(view, "swiglu"); });
  add_row_kernel<SwigluBackward>(table, "swiglu_backward");
  table.add("geglu", [](const OpView& view) {
    return is_erf_form(view.attributes()) ? make_gated<OfGeluGate<GeluErf>>(view, "geglu")
                                          : make_gated<OfGeluGate<GeluTanh>>(view, "geglu");
  });
  add_gelu<GegluBackward>(table, "geglu_backward");
  add_row_kernel<Tanh>(table, "tanh");
  add_row_kernel<TanhBackward>(table, "tanh_backward");
  add_row_kernel<Relu>(table, "relu");
  add_row_kernel<ReluBackward>(table, "relu_backward");
}

}  // namespace recollect::cuda
