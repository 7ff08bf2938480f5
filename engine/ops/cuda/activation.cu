// Bias and GELU: one pass over memory each.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/gelu.h"
#include "engine/ops/cuda/kernels.h"

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

template <template <typename, int, typename> class K>
KernelPointer make_gelu(const OpView& view, const char* kind) {
  return with_row_vectors(view.in(0).dtype, view.in(0).shape[1], kind,
                          [&]<typename A, int N>() -> KernelPointer {
                            if (view.attributes().text("form") == "erf")
                              return std::make_unique<K<A, N, GeluErf>>(view);
                            return std::make_unique<K<A, N, GeluTanh>>(view);
                          });
}

}  // namespace

void register_activation(KernelTable& table) {
  table.add("bias_gelu", [](const OpView& view) { return make_gelu<BiasGelu>(view, "bias_gelu"); });
  table.add("bias_gelu_backward",
            [](const OpView& view) { return make_gelu<BiasGeluBackward>(view, "bias_gelu_backward"); });
}

}  // namespace recollect::cuda
