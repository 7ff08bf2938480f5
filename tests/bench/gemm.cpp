// The machine's own GEMM rate, and how our products compare with oneDNN's: GPT-2's and BERT-large's products
// forward and backward, and 2048 cubed, on all threads; bf16 also as where its dot product does not pay. Both libraries run in turn on the same memory, so that what else
// the machine does slows both: the ratio is the median of those of neighbouring runs.
//
//   bench_gemm [--json]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/arena.h"
#include "engine/ops/cpu/gemm.h"

namespace {

using recollect::DType;
using recollect::cpu::Gemm;
using recollect::cpu::GemmSpec;
using Memory = dnnl::memory;

struct Product {
  const char* name;
  GemmSpec spec;
};

// What a linear layer of [out, in] weights computes of `rows` tokens.
void add_layer(std::vector<Product>& products, const char* name, int64_t rows, int64_t in, int64_t out) {
  products.push_back({name, {.m = rows, .n = out, .k = in, .transpose_b = true}});
  products.push_back({"  backward input", {.m = rows, .n = in, .k = out}});
  products.push_back({"  backward weight", {.m = out, .n = in, .k = rows, .transpose_a = true}});
}

std::vector<Product> products_of(DType dtype) {
  std::vector<Product> products;
  add_layer(products, "qkv", 1024, 768, 2304);
  add_layer(products, "proj", 1024, 768, 768);
  add_layer(products, "fc1", 1024, 768, 3072);
  add_layer(products, "fc2", 1024, 3072, 768);
  add_layer(products, "head", 256, 768, 50304);
  add_layer(products, "BERT proj", 512, 1024, 1024);
  add_layer(products, "BERT fc1", 512, 1024, 4096);
  add_layer(products, "BERT fc2", 512, 4096, 1024);
  // Of configs/gpt2-tiny.yaml on two tensor ranks: most of these widths are no multiple of a block's.
  add_layer(products, "tiny qkv", 1024, 128, 192);
  add_layer(products, "tiny proj", 1024, 64, 128);
  add_layer(products, "tiny fc1", 1024, 128, 256);
  add_layer(products, "tiny fc2", 1024, 256, 128);
  products.push_back({"2048 cubed", {.m = 2048, .n = 2048, .k = 2048, .transpose_b = true}});
  for (Product& p : products) p.spec.in = p.spec.out = dtype;
  return products;
}

class OneDnn {
 public:
  OneDnn(const GemmSpec& spec, void* a, void* b, void* c)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = Memory::format_tag;
    const auto type = spec.in == DType::kF32 ? Memory::data_type::f32 : Memory::data_type::bf16;
    const auto matrix = [&](int64_t rows, int64_t columns, bool transposed) {
      return Memory::desc({rows, columns}, type, transposed ? Tag::ba : Tag::ab);
    };
    const Memory::desc of_a = matrix(spec.m, spec.k, spec.transpose_a),
                       of_b = matrix(spec.k, spec.n, spec.transpose_b), of_c = matrix(spec.m, spec.n, false);
#if DNNL_VERSION_MAJOR >= 3
    matmul_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine_, of_a, of_b, of_c));
#else
    matmul_ = dnnl::matmul(dnnl::matmul::primitive_desc({of_a, of_b, of_c}, engine_));
#endif
    arguments_ = {{DNNL_ARG_SRC, Memory(of_a, engine_, a)},
                  {DNNL_ARG_WEIGHTS, Memory(of_b, engine_, b)},
                  {DNNL_ARG_DST, Memory(of_c, engine_, c)}};
  }
  void run() {
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, Memory> arguments_;
};

template <typename F>
double seconds(const F& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Rates {
  double ours = 0, widened = 0, onednn = 0;  // GFLOP/s
  double ratio = 0;                          // of the speeds, ours over oneDNN's
};

Rates rates_of(const GemmSpec& spec) {
  constexpr int kWarm = 2, kRuns = 15;
  // As a training has it: on huge pages.
  const auto buffer = [&](int64_t elements) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(spec.in);
    recollect::Arena arena(bytes);
    std::memset(arena.at(0), 0x3c, bytes);
    return arena;
  };
  const recollect::Arena a = buffer(spec.m * spec.k), b = buffer(spec.k * spec.n),
                         c = buffer(spec.m * spec.n);
  GemmSpec wide = spec;
  wide.units = recollect::cpu::Bf16Units::kWidened;
  const Gemm gemm(spec), widened(wide);
  const recollect::Arena workspace(std::max(gemm.workspace_bytes(), widened.workspace_bytes()));
  OneDnn onednn(spec, a.at(0), b.at(0), c.at(0));
  std::vector<double> ours, wides, theirs, ratios;
  for (int run = -kWarm; run < kRuns; ++run) {
    const auto time = [&](const Gemm& g) {
      return seconds([&] { g.run(a.at(0), b.at(0), c.at(0), nullptr, false, workspace.at(0)); });
    };
    const double wide_time = time(widened), mine = time(gemm);
    const double other = seconds([&] { onednn.run(); });
    if (run < 0) continue;
    ours.push_back(mine);
    wides.push_back(wide_time);
    theirs.push_back(other);
    ratios.push_back(other / mine);
  }
  const double work = 2e-9 * static_cast<double>(spec.m * spec.n * spec.k);
  return {work / median(ours), work / median(wides), work / median(theirs), median(ratios)};
}

// The best rate of either.
double best_rate(DType dtype, const char* name, bool print) {
  double best = 0;
  for (const Product& p : products_of(dtype)) {
    const Rates r = rates_of(p.spec);
    if (print)
      fmt::print("| {} {} | {} x {} x {} | {:.0f} | {:.0f} | {:.0f} | {:.2f} |\n", name, p.name, p.spec.m,
                 p.spec.n, p.spec.k, r.ours, r.widened, r.onednn, r.ratio);
    best = std::max({best, r.ours, r.onednn});
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string(argv[1]) == "--json";
  if (!json)
    fmt::print(
        "| product | m x n x k | ours, GFLOP/s | with f32's units | oneDNN, GFLOP/s | ours over oneDNN "
        "|\n|---|---|---|---|---|---|\n");
  const double f32 = best_rate(DType::kF32, "fp32", !json);
  const double bf16 = best_rate(DType::kBF16, "bf16", !json);
  if (json)
    fmt::print("{{\"f32_gflops\": {:.1f}, \"bf16_gflops\": {:.1f}}}\n", f32, bf16);
  else
    fmt::print("\nbest: fp32 {:.0f}, bf16 {:.0f} GFLOP/s\n", f32, bf16);
}
