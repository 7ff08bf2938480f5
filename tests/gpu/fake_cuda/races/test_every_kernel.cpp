// Every kernel of the backend runs while ThreadSanitizer watches: in op cases that are not too large, and in calls of its
// own where an op has none. What runs is counted against the kernels that the sources define; and each barrier of the
// sources is left out once, which must be seen.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "comm/cuda/reduce_parts.h"
#include "engine/ops/attention.h"
#include "engine/ops/cuda/attention_padding.h"
#include "engine/ops/cuda/cudnn_seeds.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/cuda/enqueue.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"
#include "tests/gpu/emulation/watch.h"
#include "tests/gpu/fake_cuda/races/expect_race.h"

namespace recollect::test {
namespace {

using emulation::KernelWatch;

constexpr unsigned kMostThreads = 512;    // that are watched of a launch
constexpr int64_t kMostElements = 25000;  // of a case's inputs

int64_t elements_of(const OpCase& c) {
  return std::accumulate(c.inputs.begin(), c.inputs.end(), int64_t{0},
                         [](int64_t sum, const ValueSpec& input) { return sum + input.shape.elements(); });
}

void run_once(const OpCase& c, const KernelTable& kernels, Precision precision) {
  OpRegistry registry;
  register_engine_ops(registry);
  const Graph graph = make_graph(c, registry, precision);
  const CaseData data = make_data(c, precision);
  GraphRunner runner(graph, kernels, c.state);
  const Op& op = graph.op(0);
  // As the memory's plan may have it; and no thread writes what another one has yet to read.
  if (!op.def->in_place.empty())
    if (const auto& [output, input] = op.def->in_place.front(); output < std::ssize(op.outputs))
      runner.share(op.outputs[output], op.inputs[input]);
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] != kNone) write(runner.tensor(op.inputs[i]), data.inputs[i]);
  for (const auto& [output, spec] : c.accumulators)
    if (c.accumulate && spec.fill != Fill::kGarbage)
      write(runner.tensor(op.outputs[output]), data.accumulators.at(output));
  runner.run_op(0, c.accumulate);
}

// Of a vocabulary whose other parts are empty.
class OnePart final : public VocabularyReduction {
 public:
  void max(double*, int64_t, void*) override {}
  void sum(double*, int64_t, void*) override {}
  void max(float*, int64_t, void*) override {}
  void sum(float*, int64_t, void*) override {}
};

using Kinds = std::set<std::string>;

bool is_of(const std::string& kind, const Kinds& kinds) { return kinds.empty() || kinds.contains(kind); }

// Those that are not too large, the largest first, whose loops turn most often: few launches of a kernel are watched.
std::vector<OpCase> by_size() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& c) {
    return elements_of(c) > (c.accumulate ? kMostElements / 4 : kMostElements);
  });
  std::stable_sort(cases.begin(), cases.end(),
                   [](const OpCase& a, const OpCase& b) { return elements_of(a) > elements_of(b); });
  return cases;
}

// Of all kinds, or of those that are named. Kernels of f16 are made as those of bf16 are, and run where these are watched.
void run_ops(KernelWatch& watch, const Kinds& kinds = {}, bool f16_too = false) {
  OnePart part;
  KernelTable kernels, divided;
  emulation::register_kernels(kernels);
  emulation::register_kernels(divided, &part);
  for (const OpCase& c : by_size()) {
    if (!is_of(c.kind, kinds)) continue;
    watch.begin_case();
    const bool chooses = c.kind == "lm_head_loss";  // one of two kernels, by the type too
    const auto run = [&](Precision precision) {
      run_once(c, kernels, precision);
      if (chooses) run_once(c, divided, precision);
    };
    run(kBfloat16);
    if (f16_too && (chooses || watch.watches_case())) run(kFloat16);
    run(kFloat);
  }
}

// Parameters in bf16 that have no copy in more bits, which the table of cases lacks.
void run_rounded_updates(const Kinds& kinds = {}) {
  const Shape shape{6, 600};
  KernelTable kernels;
  emulation::register_kernels(kernels);
  for (const std::string kind : {"adamw", "adamw_hf", "adam", "sgd", "lion", "adamw8bit", "lion8bit"}) {
    if (!is_of(kind, kinds)) continue;
    const bool quantised = kind.ends_with("8bit"), one = kind == "sgd" || kind.starts_with("lion");
    const auto positive = [](Storage storage, Shape of) {
      return ValueSpec{
          .name = "numbers", .shape = of, .storage = storage, .fill = Fill::kPositive, .scale = 0.1};
    };
    OpCase c{.name = kind,
             .kind = kind,
             .inputs = {positive(Storage::kF64, {3}), positive(Storage::kF64, {1}), statistic("g", shape)},
             .attributes = {{"rounded_as", int64_t{5}},
                            {"rounded_columns", int64_t{600}},
                            {"rounded_first_column", int64_t{0}},
                            {"rounded_runs", std::string("0 0 ")},
                            {"cast", int64_t{0}},
                            {"weight_decay", 0.1},
                            {"beta1", 0.75},
                            {"beta2", 0.75},
                            {"epsilon", 1e-6},
                            {"momentum", 0.75}},
             .accumulators = {{0, activation("master", shape)}},
             .accumulate = true};
    for (int moment = 0, next = 1; moment < (one ? 1 : 2); ++moment) {
      c.accumulators[next++] = positive(quantised ? Storage::kU8 : Storage::kStatistics, shape);
      if (quantised) c.accumulators[next++] = positive(Storage::kF32, {6, 3});
    }
    run_once(c, kernels, kBfloat16);
  }
}

// What streams do beside ops (engine/runtime/cuda/enqueue.h).
void run_enqueued() {
  constexpr int64_t count = 5001;
  const DType dtypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  std::vector<double> one(count), other(count);
  const auto view = [&](std::vector<double>& memory, DType dtype) {
    return Tensor{.data = memory.data(), .shape = {count}, .dtype = dtype};
  };
  for (const DType from : dtypes)
    for (const DType to : dtypes)
      if (from != to) cuda::convert(view(one, from), view(other, to), nullptr);
  for (const DType dtype : {DType::kF64, DType::kF32})
    cuda::accumulate(view(one, dtype), view(other, dtype), nullptr);
  int64_t hash = 0;
  cuda::hash_bytes(one.data(), one.size() * sizeof(double), &hash, nullptr);
}

void run_reductions() {
  constexpr int64_t count = 3001;
  std::vector<double> parts[3];
  const void* at[3];
  for (int i = 0; i < 3; ++i) parts[i].resize(count + 2), at[i] = parts[i].data();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64})
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      cuda::reduce_parts(dtype, op, at, 3, parts[1].data(), count, nullptr);  // whole packs, and the rest
      const void* apart[] = {parts[0].data() + 1, parts[1].data(), parts[2].data()};
      cuda::reduce_parts(dtype, op, apart, 3, parts[2].data(), count / 2, nullptr);
    }
}

// What prepares cuDNN's attention, and what it leaves.
void run_beside_attention() {
  std::vector<int32_t> lengths(300, 5);
  cuda::write_query_lengths(300, 7, lengths.data(), nullptr);
  const AttentionShape shape({{"heads", int64_t{2}},
                              {"kv_heads", int64_t{1}},
                              {"kv_group", int64_t{2}},
                              {"head_size", int64_t{8}},
                              {"sequence_length", int64_t{5}},
                              {"first_head", int64_t{0}},
                              {"all_heads", int64_t{2}},
                              {"causal", int64_t{0}}},
                             15, false);
  std::vector<uint16_t> gradients(std::size_t(3 * 5) * 16);
  const std::vector<int32_t> seen{1, 5, 3};
  cuda::clear_unseen_keys(shape, seen.data(),
                          {.data = gradients.data(), .shape = {15, 16}, .dtype = DType::kBF16}, nullptr);
  const RunState state{};
  std::vector<int64_t> seeds(20);
  cuda::write_attention_seeds(&state, {}, 10, seeds.data(), nullptr);
}

// File and name of a function that CUDA launches.
using Defined = std::pair<std::string, std::string>;

std::string name_behind(const std::string& text, std::size_t at) {
  const std::string bounds = "__launch_bounds__(";
  if (const std::size_t found = text.find(bounds, at); found < text.find("void", at) + 12) {
    at = found + bounds.size();
    for (int open = 1; open > 0; ++at) open += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
  } else {
    at = text.find("void", at) + 4;
  }
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  const auto begin = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), space);
  return {begin, std::find(begin, text.end(), '(')};
}

// Texts of the files that kernels are in, by name.
std::map<std::string, std::string> kernel_sources() {
  std::map<std::string, std::string> result;
  for (const char* folder : {"engine/ops/cuda", "engine/runtime/cuda", "comm/cuda"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(RECOLLECT_SOURCE_DIR) / folder)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("cublas")) continue;  // NVIDIA's library: tests/gpu/fake_cublas.cpp
      std::ifstream file(entry.path());
      result[name] = std::string(std::istreambuf_iterator<char>(file), {});
    }
  return result;
}

std::set<Defined> kernels_in_sources() {
  std::set<Defined> result;
  for (const auto& [name, text] : kernel_sources())
    for (std::size_t at = text.find("\n__global__"); at != std::string::npos;
         at = text.find("\n__global__", at + 1))
      result.insert({name, name_behind(text, at)});
  return result;
}

// Of each kernel that is made for bf16, but for those between both and those of masters, which are bf16 or f32.
void expect_f16(const std::map<const void*, KernelWatch::Kernel>& kernels) {
  const std::string bf16 = "recollect::bf16", f16 = "recollect::f16";
  std::set<std::string> functions;
  for (const auto& [address, kernel] : kernels) functions.insert(kernel.function);
  for (std::string function : functions) {
    if (function.find(bf16) == std::string::npos || function.find(f16) != std::string::npos ||
        function.find(bf16 + ", " + bf16) != std::string::npos)
      continue;
    for (std::size_t at; (at = function.find(bf16)) != std::string::npos;)
      function.replace(at, bf16.size(), f16);
    EXPECT_TRUE(functions.contains(function)) << function << " never runs here";
  }
}

TEST(EveryKernel, HasNoRace) {
  KernelWatch watch(kMostThreads);
  run_ops(watch, {}, true);
  run_rounded_updates();
  run_enqueued();
  run_reductions();
  run_beside_attention();

  std::set<Defined> missing = kernels_in_sources();
  EXPECT_GT(missing.size(), 40u);
  for (const auto& [address, kernel] : watch.kernels()) {
    const std::string file = std::filesystem::path(kernel.file).filename();
    EXPECT_GE(kernel.watched, std::min(kernel.blocks, 2u))
        << file << ": " << kernel.function << " is watched in " << kernel.watched << " of " << kernel.blocks
        << " blocks";
    std::erase_if(missing, [&](const Defined& one) {
      return one.first == file && emulation::is_function(kernel.function, one.second);
    });
  }
  expect_f16(watch.kernels());
  for (const auto& [file, name] : missing) ADD_FAILURE() << file << ": " << name << " never runs here";
}

// A barrier in the sources, and the kinds of ops whose kernels may reach it.
struct Barrier {
  std::string file;
  unsigned line;
  Kinds kinds;
};

void PrintTo(const Barrier& barrier, std::ostream* out) { *out << barrier.file << ":" << barrier.line; }

// Those that the file makes kernels for; of a header, those of the sources that include it.
Kinds kinds_of(const std::string& file, const std::map<std::string, std::string>& sources, const Kinds& all) {
  Kinds result;
  for (const auto& [name, text] : sources)
    if (name == file || (file.ends_with(".h") && text.find("/" + file + "\"") != std::string::npos))
      std::copy_if(all.begin(), all.end(), std::inserter(result, result.end()), [&](const std::string& kind) {
        return text.find("\"" + kind + "\"") != std::string::npos;
      });
  return result;
}

std::vector<Barrier> barriers_in_sources() {
  const std::map<std::string, std::string> sources = kernel_sources();
  Kinds all;
  for (const OpCase& c : op_cases()) all.insert(c.kind);
  std::vector<Barrier> result;
  for (const auto& [file, text] : sources) {
    std::istringstream lines(text);
    std::optional<Kinds> kinds;
    unsigned number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::string code = line.substr(0, line.find("//"));
      if (code.find("__syncthreads()") == std::string::npos && code.find("__syncwarp()") == std::string::npos)
        continue;
      if (!kinds) kinds = kinds_of(file, sources, all);
      result.push_back({file, number, *kinds});
    }
  }
  return result;
}

class EveryBarrier : public testing::TestWithParam<Barrier> {};

TEST_P(EveryBarrier, GivesARaceWhereItIsLeftOut) {
  const Barrier& barrier = GetParam();
  ASSERT_FALSE(barrier.kinds.empty());
  const std::string options = std::getenv("TSAN_OPTIONS") ? std::getenv("TSAN_OPTIONS") : "";
  setenv("TSAN_OPTIONS", (options + ":symbolize=0").c_str(), 1);  // for what is started: names take seconds
  EXPECT_RACE({
    KernelWatch watch(kMostThreads);
    watch.leave_out("/" + barrier.file, barrier.line);
    run_rounded_updates(barrier.kinds);
    run_ops(watch, barrier.kinds);
  });
}

INSTANTIATE_TEST_SUITE_P(Sources, EveryBarrier, testing::ValuesIn(barriers_in_sources()),
                         [](const auto& info) {
                           std::string name = info.param.file + "_" + std::to_string(info.param.line);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace recollect::test
