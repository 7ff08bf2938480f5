// How fast the cpu backend's kernels are at the shapes of a GPT-2 124M step (1024 tokens as 2 x 512), next to
// the machine's own rates, of a GEMM and of STREAM's triad. What moves memory and multiplies nothing takes 32768
// tokens, so that caches hold neither its numbers nor the triad's, which runs just before it. FLOPs and bytes are
// those that the op definitions state; the best of many runs counts. For matrix products, "of units" is the part of the
// rate of f32 multiply-adds from registers, with vectors of the level, measured in turn with the kernel.
//
//   bench_kernels [part of a name] [f32|bf16|both] [what device.isa takes]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "engine/ops/cpu_level.h"
#include "engine/ops/ops.h"
#include "tests/bench/rates.h"

namespace recollect::bench {
namespace {

constexpr int64_t kSamples = 2, kLength = 512, kTokens = kSamples * kLength, kHidden = 768, kHeads = 12;
constexpr int64_t kStreamedSamples = 64, kStreamed = kStreamedSamples * kLength;
constexpr int64_t kVocabulary = 50257, kPaddedVocabulary = 50304;

void fill(const Tensor& tensor) {
  const int64_t n = tensor.elements();
  for (int64_t i = 0; i < n; ++i) {
    const double u = random_unit({.seed = 1}, static_cast<uint64_t>(i % 65521)) - 0.5;
    if (tensor.dtype == DType::kF64) tensor.as<double>()[i] = 0.1 + u * u;
    if (tensor.dtype == DType::kF32) tensor.as<float>()[i] = static_cast<float>(u);
    if (tensor.dtype == DType::kBF16) tensor.as<bf16>()[i] = bf16(static_cast<float>(u));
    if (tensor.dtype == DType::kI32) tensor.as<int32_t>()[i] = static_cast<int32_t>((u + 0.5) * kVocabulary);
  }
}

struct Input {
  Shape shape;
  char type;                          // 'a' activation, 's' statistics, 'i' i32, 'd' f64, '-' absent
  std::vector<int32_t> numbers = {};  // of i32, where they matter
};

struct Case {
  std::string name, kind;
  std::vector<Input> inputs;
  Attributes attributes = {};
  std::vector<std::pair<int, Input>> accumulators = {};
  bool accumulate = false;
  bool streams = false;  // bound by memory: beside the triad
  bool product = false;  // of matrices: compared with the multiply-add units
};

class OneOp {
 public:
  OneOp(const Case& c, const OpRegistry& registry, const KernelTable& kernels, DType activation) : case_(c) {
    Op op{.def = registry.find(c.kind),
          .name = c.kind,
          .attributes = c.attributes,
          .inputs = {},
          .outputs = {}};
    const auto add = [&](const Input& in, bool accumulator) -> ValueId {
      if (in.type == '-') return kNone;
      const DType dtype = in.type == 'a'   ? activation
                          : in.type == 's' ? DType::kF32
                          : in.type == 'i' ? DType::kI32
                                           : DType::kF64;
      return graph_.add_value(
          {.name = "value", .shape = in.shape, .dtype = dtype, .accumulator = accumulator});
    };
    for (const Input& in : c.inputs) op.inputs.push_back(add(in, false));
    for (const auto& [output, in] : c.accumulators) {
      op.outputs.resize(output + 1, kNone);
      op.outputs[output] = add(in, true);
    }
    graph_.add_op(std::move(op));
    for (const Value& value : graph_.values()) {
      memory_.push_back(std::make_unique<Arena>(value.bytes()));
      fill({memory_.back()->at(0), value.shape, value.dtype});
    }
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      if (!c.inputs[i].numbers.empty())
        std::copy(c.inputs[i].numbers.begin(), c.inputs[i].numbers.end(),
                  tensor(graph_.op(0).inputs[i]).as<int32_t>());
    for (const ValueId id : graph_.op(0).inputs) in_.push_back(tensor(id));
    for (const ValueId id : graph_.op(0).outputs) out_.push_back(tensor(id));
    kernel_ = kernels.make(view());
    workspace_ = std::make_unique<Arena>(kernel_->workspace_bytes());
  }

  void run() {
    kernel_->run({.in = in_,
                  .out = out_,
                  .workspace = workspace_->at(0),
                  .state = &state_,
                  .accumulate = case_.accumulate});
  }
  Cost cost() const { return graph_.op(0).def->cost(view()); }
  std::size_t workspace_bytes() const { return kernel_->workspace_bytes(); }

 private:
  OpView view() const { return {graph_, graph_.op(0)}; }
  Tensor tensor(ValueId id) const {
    if (id == kNone) return {};
    return {memory_[id]->at(0), graph_.value(id).shape, graph_.value(id).dtype};
  }

  const Case& case_;
  Graph graph_;
  std::vector<std::unique_ptr<Arena>> memory_;
  std::vector<Tensor> in_, out_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Arena> workspace_;
  RunState state_{.seed = 1, .token_stride = kLength};
};

void add_linear_cases(std::vector<Case>& cases) {
  struct Layer {
    const char* name;
    int64_t in, out;
  };
  for (const auto& [name, in, out] :
       {Layer{"qkv", kHidden, 3 * kHidden}, Layer{"proj", kHidden, kHidden},
        Layer{"fc1", kHidden, 4 * kHidden}, Layer{"fc2", 4 * kHidden, kHidden}}) {
    const Input x{{kTokens, in}, 'a'}, w{{out, in}, 'a'}, dy{{kTokens, out}, 'a'}, dw{{out, in}, 's'};
    const std::string layer = name;
    cases.push_back({.name = layer + " forward", .kind = "linear", .inputs = {x, w}});
    cases.push_back({.name = layer + " backward input", .kind = "linear_backward_input", .inputs = {dy, w}});
    Case weight{.name = layer + " backward weight",
                .kind = "linear_backward_weight",
                .inputs = {x, dy},
                .attributes = {{"bias", int64_t{0}}},
                .accumulators = {{0, dw}}};
    cases.push_back(weight);
    weight.name += ", adding";
    weight.accumulate = true;
    cases.push_back(weight);
  }
}

Attributes attention_of(int64_t length, bool causal, double p = 0) {
  return {{"heads", kHeads},
          {"kv_heads", kHeads},
          {"kv_group", int64_t{1}},
          {"causal", int64_t{causal}},
          {"head_size", kHidden / kHeads},
          {"sequence_length", length},
          {"first_head", int64_t{0}},
          {"all_heads", kHeads},
          {"p", p},
          {"layer", int64_t{0}},
          {"site", int64_t{0}}};
}

// Forward and backward; `more` are their last inputs.
void add_attention(std::vector<Case>& cases, const std::string& name, const std::string& suffix,
                   int64_t samples, const Attributes& attributes, const std::vector<Input>& more = {}) {
  const int64_t length = attributes.integer("sequence_length"), tokens = samples * length;
  const Input qkv{{tokens, 3 * kHidden}, 'a'}, o{{tokens, kHidden}, 'a'},
      lse{{samples * kHeads, length}, 's'};
  Case forward{.name = name + suffix, .kind = "attention", .inputs = {qkv}, .attributes = attributes};
  Case backward{.name = name + " backward" + suffix,
                .kind = "attention_backward",
                .inputs = {o, qkv, o, lse},
                .attributes = attributes};
  for (Case* c : {&forward, &backward}) {
    c->inputs.insert(c->inputs.end(), more.begin(), more.end());
    cases.push_back(*c);
  }
}

void add_attention_cases(std::vector<Case>& cases) {
  add_attention(cases, "attention", "", kSamples, attention_of(kLength, true));
  add_attention(cases, "attention", ", dropout", kSamples, attention_of(kLength, true, 0.1));
}

// One sample that looks back, and two that do not, of which one ends at three quarters.
void add_long_attention_cases(std::vector<Case>& cases) {
  for (const int32_t length : {512, 1024, 2048, 4096, 8192, 16384}) {
    const std::string name = "long attention", suffix = " of " + std::to_string(length);
    add_attention(cases, name, suffix + ", causal", 1, attention_of(length, true));
    add_attention(cases, name, suffix + ", padded", 2, attention_of(length, false),
                  {{{}, '-'}, {{2}, 'i', {length, length / 4 * 3}}});
  }
}

// Sequences as long as SWAG's, back to back in one sample or each in one that is padded. Their rates count what is
// computed for padding as well, and for keys of other sequences: compare times.
void add_packed_attention_cases(std::vector<Case>& cases) {
  const std::vector<int32_t> lengths = {142, 40, 98, 142, 90};  // 512 in all
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<int32_t> positions;
  for (const int32_t length : lengths)
    for (int32_t i = 0; i < length; ++i) positions.push_back(i);
  add_attention(cases, "sequences", ", packed in 512", 1, attention_of(512, false),
                {{{}, '-'}, {{}, '-'}, {{1, 512}, 'i', positions}});
  for (const int64_t length : {142, 512})
    add_attention(cases, "sequences", ", padded to " + std::to_string(length), count,
                  attention_of(length, false), {{{}, '-'}, {{count}, 'i', lengths}});
}

void add_head_cases(std::vector<Case>& cases) {
  for (const int64_t chunk : {256, 512, 1024})
    cases.push_back({.name = "head, " + std::to_string(chunk) + " rows",
                     .kind = "lm_head_loss",
                     .inputs = {{{kTokens, kHidden}, 'a'},
                                {{kPaddedVocabulary, kHidden}, 'a'},
                                {{kSamples, kLength}, 'i'},
                                {{1}, 'd'}},
                     .attributes = {{"vocabulary_size", kVocabulary},
                                    {"first_row", int64_t{0}},
                                    {"chunk_rows", chunk},
                                    {"gradient", int64_t{1}}},
                     .accumulators = {{0, {{1}, 'd'}}, {2, {{kPaddedVocabulary, kHidden}, 's'}}}});
}

void add_streaming_cases(std::vector<Case>& cases) {
  const Input x{{kStreamed, kHidden}, 'a'}, wide{{kStreamed, 4 * kHidden}, 'a'}, row{{kHidden}, 's'};
  const Input wide_row{{4 * kHidden}, 's'}, token{{kStreamed}, 's'}, ids{{kStreamedSamples, kLength}, 'i'};
  const Input table{{kPaddedVocabulary, kHidden}, 'a'}, dtable{{kPaddedVocabulary, kHidden}, 's'};
  const Attributes form{{"form", std::string("tanh")}}, epsilon{{"epsilon", 1e-5}},
      first{{"first_row", int64_t{0}}};
  cases.push_back({.name = "embedding", .kind = "embedding", .inputs = {ids, table}, .attributes = first});
  cases.push_back({.name = "embedding backward, adding",
                   .kind = "embedding_backward",
                   .inputs = {ids, x},
                   .attributes = first,
                   .accumulators = {{0, dtable}},
                   .accumulate = true});
  cases.push_back(
      {.name = "layer_norm", .kind = "layer_norm", .inputs = {x, row, row}, .attributes = epsilon});
  cases.push_back({.name = "layer_norm backward",
                   .kind = "layer_norm_backward",
                   .inputs = {x, x, row, token, token, x},
                   .attributes = epsilon,
                   .accumulators = {{1, row}, {2, row}}});
  cases.push_back({.name = "bias_gelu", .kind = "bias_gelu", .inputs = {wide, wide_row}, .attributes = form});
  cases.push_back({.name = "bias_gelu backward",
                   .kind = "bias_gelu_backward",
                   .inputs = {wide, wide, wide_row},
                   .attributes = form,
                   .accumulators = {{1, wide_row}}});
  cases.push_back({.name = "rms_norm", .kind = "rms_norm", .inputs = {x, row}, .attributes = epsilon});
  cases.push_back({.name = "rms_norm backward",
                   .kind = "rms_norm_backward",
                   .inputs = {x, x, row, token, x},
                   .attributes = epsilon,
                   .accumulators = {{1, row}}});
  const Input of_heads{{kStreamed, 3 * kHidden}, 'a'}, head{{kHidden / kHeads}, 's'};
  const Attributes heads{{"heads", kHeads}, {"second_heads", kHeads}, {"epsilon", 1e-5}};
  cases.push_back(
      {.name = "head_norm", .kind = "head_norm", .inputs = {of_heads, head, head}, .attributes = heads});
  cases.push_back({.name = "head_norm backward",
                   .kind = "head_norm_backward",
                   .inputs = {of_heads, of_heads, head, head},
                   .attributes = heads,
                   .accumulators = {{1, head}, {2, head}}});
  cases.push_back({.name = "swiglu", .kind = "swiglu", .inputs = {{{kStreamed, 8 * kHidden}, 'a'}}});
  cases.push_back({.name = "swiglu backward",
                   .kind = "swiglu_backward",
                   .inputs = {wide, {{kStreamed, 8 * kHidden}, 'a'}}});
  cases.push_back({.name = "rotary",
                   .kind = "rotary",
                   .inputs = {{{kStreamed, 3 * kHidden}, 'a'}, {{kLength, kHidden / kHeads}, 's'}},
                   .attributes = {{"sequence_length", kLength},
                                  {"head_size", kHidden / kHeads},
                                  {"rotated_heads", 2 * kHeads},
                                  {"inverse", int64_t{0}}}});
  for (const double p : {0.0, 0.1}) {
    const std::string suffix = p > 0 ? ", dropout" : "";
    const Attributes dropout{{"p", p},
                             {"layer", int64_t{0}},
                             {"site", int64_t{0}},
                             {"sequence_length", kLength},
                             {"first_token", int64_t{0}}};
    cases.push_back({.name = "bias_dropout_add" + suffix,
                     .kind = "bias_dropout_add",
                     .inputs = {x, row, x},
                     .attributes = dropout});
    cases.push_back({.name = "bias_dropout_add backward" + suffix,
                     .kind = "bias_dropout_add_backward",
                     .inputs = {x},
                     .attributes = dropout,
                     .accumulators = {{1, row}}});
  }
}

void add_optimizer_cases(std::vector<Case>& cases, bool cast) {
  const Input weights{{kPaddedVocabulary, kHidden}, 's'}, param{{kPaddedVocabulary, kHidden}, 'a'};
  Case adamw{.name = "adamw",
             .kind = "adamw",
             .inputs = {{{3}, 'd'}, {{1}, 'd'}, weights},
             .attributes = {{"beta1", 0.9},
                            {"beta2", 0.999},
                            {"epsilon", 1e-8},
                            {"weight_decay", 0.01},
                            {"cast", int64_t{cast}}},
             .accumulators = {{0, weights}, {1, weights}, {2, weights}}};
  Case rounded = adamw;  // bf16 weights that are their own masters
  if (cast) adamw.accumulators.push_back({3, param});
  cases.push_back(adamw);
  if (cast) {
    rounded.name += ", rounded by chance";
    rounded.attributes.set("cast", int64_t{0});
    rounded.attributes.set("rounded_as", int64_t{0});
    rounded.attributes.set("rounded_columns", kHidden);
    rounded.attributes.set("rounded_first_column", int64_t{0});
    rounded.attributes.set("rounded_runs", std::string("0 0"));
    rounded.accumulators[0].second = param;
    cases.push_back(rounded);
  }
  cases.push_back({.name = "squared_norm", .kind = "squared_norm", .inputs = {weights}});
}

double gemm_rate(const OpRegistry& registry, const KernelTable& kernels, DType dtype) {
  constexpr int64_t n = 2048;
  const Case linear{.name = "GEMM", .kind = "linear", .inputs = {{{n, n}, 'a'}, {{n, n}, 'a'}}};
  OneOp op(linear, registry, kernels, dtype);
  return 2.0 * n * n * n / best_seconds([&] { op.run(); });
}

void run(const std::string& filter, DType dtype, const CpuLevel& level) {
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable kernels;
  level.register_kernels(kernels, nullptr);
  std::vector<Case> cases;
  add_linear_cases(cases);
  for (Case& c : cases) c.product = true;
  add_attention_cases(cases);
  add_packed_attention_cases(cases);
  add_long_attention_cases(cases);
  add_head_cases(cases);
  const std::size_t streaming = cases.size();
  add_streaming_cases(cases);
  add_optimizer_cases(cases, dtype == DType::kBF16);
  std::for_each(cases.begin() + streaming, cases.end(), [](Case& c) { c.streams = true; });
  const double rate = gemm_rate(registry, kernels, dtype);
  fmt::print("{} by {} on {} threads: GEMM of 2048 at {:.0f} GFLOP/s\n", name_of(dtype), name_of(level.isa),
             omp_get_max_threads(), rate / 1e9);
  fmt::print("{:<36}{:>10}{:>10}{:>9}{:>10}{:>8}{:>13}{:>10}{:>15}\n", "kernel", "ms", "GFLOP/s", "of GEMM",
             "of units", "GB/s", "triad, GB/s", "of triad", "workspace MB");
  const bool by_multiply_adds =
      level.isa > CpuIsa::kBaseline && (level.isa <= CpuIsa::kAvx512 || dtype == DType::kF32);
  const std::size_t vector = level.isa >= CpuIsa::kAvx512 ? 64 : 32;
  for (const Case& c : cases) {
    if (c.name.find(filter) == std::string::npos) continue;
    OneOp op(c, registry, kernels, dtype);
    const double triad = c.streams ? triad_rate() : 0;
    const double seconds = best_seconds([&] { op.run(); });
    const Cost cost = op.cost();
    const double bytes = cost.bytes / seconds;
    const double part =
        c.product && by_multiply_adds ? part_of_units(vector, cost.flops, [&] { op.run(); }) : 0;
    fmt::print("{:<36}{:>10.3f}{:>10.0f}{:>8.0f}%{:>10}{:>8.1f}{:>13}{:>10}{:>15.1f}\n", c.name,
               seconds * 1e3, cost.flops / seconds / 1e9, 100 * cost.flops / seconds / rate,
               part > 0 ? fmt::format("{:.0f} %", 100 * part) : "-", bytes / 1e9,
               c.streams ? fmt::format("{:.1f}", triad / 1e9) : "-",
               c.streams ? fmt::format("{:.0f} %", 100 * bytes / triad) : "-",
               static_cast<double>(op.workspace_bytes()) / 1e6);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  using namespace recollect;
  const std::string filter = argc > 1 ? argv[1] : "", type = argc > 2 ? argv[2] : "both",
                    isa = argc > 3 ? argv[3] : "auto";
  const auto& names = kSpellings<CpuIsa>;
  const auto named = std::find(names.begin(), names.end(), isa);
  if (named == names.end()) {
    fmt::print(stderr, "bench_kernels: no such set of instructions: {}\n", isa);
    return 2;
  }
  try {
    const CpuLevel& level = cpu_level(static_cast<CpuIsa>(named - names.begin()));
    if (type != "bf16") bench::run(filter, DType::kF32, level);
    if (type != "f32") bench::run(filter, DType::kBF16, level);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return 2;
  }
}
