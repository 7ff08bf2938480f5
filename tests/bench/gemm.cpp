// The machine's own GEMM rate: the best that oneDNN's matmul reaches on 2048 cubed and at GPT-2 124M's
// shapes, on all threads.
//
//   bench_gemm [--json]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dnnl.hpp>
#include <string>
#include <vector>

namespace {

using Memory = dnnl::memory;

struct Product {
  int64_t m, n, k;
};

constexpr Product kProducts[] = {{2048, 2048, 2048}, {1024, 2304, 768}, {1024, 3072, 768},
                                 {1024, 768, 3072},  {1024, 768, 768},  {512, 50304, 768}};

dnnl::matmul make_matmul(const dnnl::engine& engine, const Memory::desc& a, const Memory::desc& b,
                         const Memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(dnnl::matmul::primitive_desc(engine, a, b, c));
#else
  return dnnl::matmul(dnnl::matmul::primitive_desc({a, b, c}, engine));
#endif
}

// GFLOP/s of the median of several runs of x w^T.
double rate(const Product& p, Memory::data_type type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  using Tag = Memory::format_tag;
  const Memory::desc a({p.m, p.k}, type, Tag::ab), b({p.k, p.n}, type, Tag::ba), c({p.m, p.n}, type, Tag::ab);
  dnnl::matmul matmul = make_matmul(engine, a, b, c);
  Memory x(a, engine), w(b, engine), y(c, engine);
  std::memset(x.get_data_handle(), 0x3c, a.get_size());
  std::memset(w.get_data_handle(), 0x3c, b.get_size());
  std::vector<double> seconds;
  for (int run = 0; run < 12; ++run) {
    const auto start = std::chrono::steady_clock::now();
    matmul.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream.wait();
    if (run >= 3)
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return 2e-9 * static_cast<double>(p.m * p.n * p.k) / seconds[seconds.size() / 2];
}

double best_rate(Memory::data_type type, const char* name, bool print) {
  double best = 0;
  for (const Product& p : kProducts) {
    const double gflops = rate(p, type);
    if (print) fmt::print("{} {:>5} x {:>5} x {:>5}  {:7.0f} GFLOP/s\n", name, p.m, p.n, p.k, gflops);
    best = std::max(best, gflops);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string(argv[1]) == "--json";
  const double f32 = best_rate(Memory::data_type::f32, "f32 ", !json);
  const double bf16 = best_rate(Memory::data_type::bf16, "bf16", !json);
  if (json)
    fmt::print("{{\"f32_gflops\": {:.1f}, \"bf16_gflops\": {:.1f}}}\n", f32, bf16);
  else
    fmt::print("best: f32 {:.0f}, bf16 {:.0f} GFLOP/s\n", f32, bf16);
}
