// Tensors of files on their way to ranks and back: both orientations, both ways to split, blocks that are
// tensors of their own, names with and without the family's prefix.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "parallel/layers.h"
#include "parallel/model_files.h"
#include "parallel/weights.h"
#include "tests/comm/ranks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::weights_test {
namespace {

constexpr int64_t kWidth = 6, kInner = 16, kVocabulary = 5;
using Shape2 = std::vector<int64_t>;

// As files have them.
std::map<std::string, Shape2> file_shapes(bool transposed) {
  const auto matrix = [&](int64_t out, int64_t in) { return transposed ? Shape2{in, out} : Shape2{out, in}; };
  return {{"q.weight", matrix(8, kWidth)},
          {"k.weight", matrix(4, kWidth)},
          {"v.weight", matrix(4, kWidth)},
          {"q.bias", {8}},
          {"k.bias", {4}},
          {"v.bias", {4}},
          {"up.weight", matrix(kInner, kWidth)},
          {"up.bias", {kInner}},
          {"down.weight", matrix(kWidth, kInner)},
          {"norm.weight", {kWidth}},
          {"norm.bias", {kWidth}},
          {"wte", {kVocabulary, kWidth}}};
}

// Number `i` of the tensor: no two of all tensors are the same.
double number(const std::string& tensor, int64_t i) {
  double first = 0;
  for (const auto& [name, shape] : file_shapes(false)) {
    if (name == tensor) return first + static_cast<double>(i);
    first += 1000;
  }
  throw std::runtime_error("no tensor " + tensor);
}

// Element [row, column] of a weight [out, in], or [row] of a vector.
double expected(const std::string& tensor, bool transposed, int64_t row, int64_t column = 0) {
  const Shape2 shape = file_shapes(transposed).at(tensor);
  if (shape.size() == 1) return number(tensor, row);
  const bool turned = transposed && tensor != "wte";
  return number(tensor, turned ? column * shape[1] + row : row * shape[1] + column);
}

std::string write_source(const TemporaryFolder& folder, bool transposed, const std::string& prefix,
                         const std::vector<std::string>& without = {}, const std::string& more = "") {
  const std::string path = folder.file("model.safetensors");
  SafetensorsWriter file(path);
  auto shapes = file_shapes(transposed);
  for (const std::string& name : without) shapes.erase(name);
  for (const auto& [name, shape] : shapes) file.declare(prefix + name, DType::kF64, shape);
  if (!more.empty()) file.declare(more, DType::kF64, {1});
  file.begin();
  for (const auto& [name, shape] : shapes) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(number(name, i));
    file.write(prefix + name, std::as_bytes(std::span(values)));
  }
  const double one = 1;
  if (!more.empty()) file.write(more, std::as_bytes(std::span(&one, 1)));
  file.finish();
  return path;
}

// One rank of a model of a norm, q|k|v in blocks, an MLP and a vocabulary.
class Rank {
 public:
  Rank(Communicator& world, bool transposed)
      : mesh_(world, training_axes(1, world.size())), device_(make_cpu_device()) {
    register_engine_ops(registry_);
    register_comm_ops(registry_);
    Graph graph;
    LayerBuilder b(graph, registry_, {world.rank(), world.size(), false}, DType::kF64,
                   {.sequence_length = 4});
    ValueId x = graph.add_value({.name = "x",
                                 .shape = {4, kWidth},
                                 .dtype = DType::kF64,
                                 .category = Category::kInput,
                                 .persistent = true});
    x = b.norm("norm", x, {.weight = "norm.weight", .bias = "norm.bias"});
    b.column_linear("qkv", x, 16,
                    {.weight = "qkv.weight",
                     .bias = "qkv.bias",
                     .blocks = {8, 4, 4},
                     .weight_blocks = {"q.weight", "k.weight", "v.weight"},
                     .bias_blocks = {"q.bias", "k.bias", "v.bias"},
                     .transposed_in_file = transposed});
    b.mlp("mlp", x,
          {.inner = kInner,
           .up = {.weight = "up.weight", .bias = "up.bias", .transposed_in_file = transposed},
           .down = {.weight = "down.weight", .transposed_in_file = transposed}});
    b.vocabulary_table("wte", kVocabulary, kWidth, 0.5);
    model_.parameters = b.parameters();
    model_.files = {.prefix = "family.", .passed_over = [](std::string_view name) { return name == "mask"; }};
    for (Parameter& p : model_.parameters) p.master = p.value;
    KernelTable kernels;
    reference::register_kernels(kernels);
    register_comm_kernels(kernels, [this](std::string_view axis, StreamId stream) -> Communicator& {
      return mesh_.communicator(axis, stream);
    });
    const Program program = compile(std::move(graph), kernels);
    memory_ = std::make_unique<ProgramMemory>(*device_, std::vector<const Program*>{&program});
    weights_ = std::make_unique<Weights>(model_, program.graph, *memory_, mesh_, true);
  }

  Parameter& parameter(const std::string& name) {
    for (Parameter& p : model_.parameters)
      if (p.name == name) return p;
    throw std::runtime_error("no parameter " + name);
  }
  double held(const std::string& name, int64_t row, int64_t column = 0) {
    const Parameter& p = parameter(name);
    return memory_->tensor(p.name).as<double>()[row * p.local_columns(mesh_.tensor_size()) + column];
  }
  const Weights& weights() const { return *weights_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  Mesh mesh_;
  OpRegistry registry_;
  Model model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<Weights> weights_;
};

void expect_loaded(Rank& rank, bool transposed) {
  const int t = rank.mesh().tensor_size(), me = rank.mesh().tensor_rank();
  int64_t local = 0;
  for (const auto& [name, rows] : {std::pair{"q", 8}, std::pair{"k", 4}, std::pair{"v", 4}})
    for (int64_t r = me * (rows / t); r < (me + 1) * (rows / t); ++r, ++local) {
      EXPECT_EQ(rank.held("qkv.bias", local), expected(std::string(name) + ".bias", transposed, r));
      for (int64_t c = 0; c < kWidth; ++c)
        EXPECT_EQ(rank.held("qkv.weight", local, c),
                  expected(std::string(name) + ".weight", transposed, r, c));
    }
  const int64_t part = kInner / t;
  for (int64_t i = 0; i < part; ++i) {
    EXPECT_EQ(rank.held("up.bias", i), expected("up.bias", transposed, me * part + i));
    for (int64_t w = 0; w < kWidth; ++w) {
      EXPECT_EQ(rank.held("up.weight", i, w), expected("up.weight", transposed, me * part + i, w));
      EXPECT_EQ(rank.held("down.weight", w, i), expected("down.weight", transposed, w, me * part + i));
    }
  }
  for (int64_t w = 0; w < kWidth; ++w)
    EXPECT_EQ(rank.held("norm.weight", w), expected("norm.weight", transposed, w));
  for (int64_t r = 0; r < 64; ++r)  // of which all but a few are padding
    EXPECT_EQ(rank.held("wte", r, 1), me == 0 && r < kVocabulary ? expected("wte", transposed, r, 1) : 0);
}

class WeightFiles : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(WeightFiles, AreLoadedAndSavedWhole) {
  const auto& [ranks, transposed] = GetParam();
  const TemporaryFolder folder;
  const std::string source = write_source(folder, transposed, "family."), saved = folder.file("saved");
  expect_fine(run_as_threads(ranks, [&, transposed = transposed](Communicator& world) {
    Rank rank(world, transposed);
    rank.weights().load(SafetensorsSet(source), 1);
    expect_loaded(rank, transposed);
    std::unique_ptr<SafetensorsWriter> file;
    if (world.rank() == 0) file = rank.weights().begin_file(saved);
    EXPECT_FALSE(rank.weights().save(file.get()));
  }));
  const SafetensorsFile file(saved);
  EXPECT_EQ(file.entries().size(), file_shapes(transposed).size());
  for (const auto& [name, shape] : file_shapes(transposed)) {
    const TensorEntry& entry = file.at("family." + name);
    EXPECT_EQ(entry.shape, shape) << name;
    std::vector<double> values(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())));
    file.read_as(entry, values.data());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], number(name, static_cast<int64_t>(i))) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, WeightFiles, testing::Combine(testing::Values(1, 2, 4), testing::Bool()),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Transposed" : "RowMajor");
                         });

TEST(WeightNames, MayLackThePrefixAndBeMissingWhereTheFamilySaysSo) {
  const TemporaryFolder folder;
  const auto self = make_self_communicator();
  Rank rank(*self, false);
  rank.weights().load(SafetensorsSet(write_source(folder, false, "", {}, "mask")), 1);
  expect_loaded(rank, false);

  const std::string path = write_source(folder, false, "family.", {"wte", "k.bias"}, "family.other");
  expect_error(ExitCode::kInput, {"unknown: family.other", "missing: wte", "missing: k.bias"},
               [&] { rank.weights().load(SafetensorsSet(path), 1); });
  const std::string partly = write_source(folder, false, "family.", {"wte", "k.bias"});
  rank.parameter("wte").may_be_missing = rank.parameter("qkv.bias").may_be_missing = true;
  expect_error(ExitCode::kInput, {"missing: k.bias"},  // its sisters are there
               [&] { rank.weights().load(SafetensorsSet(partly), 1); });

  Rank fresh(*self, false);
  fresh.weights().initialize(7);
  const double drawn = fresh.held("wte", 2, 3);
  EXPECT_NE(drawn, 0);
  rank.weights().load(SafetensorsSet(write_source(folder, false, "family.", {"wte"})), 7);
  EXPECT_EQ(rank.held("wte", 2, 3), drawn);
  EXPECT_EQ(rank.held("up.weight", 2, 3), expected("up.weight", false, 2, 3));
}

// A device whose memory the host reaches by copies alone, as GPUs' is.
class DistantDevice final : public Device {
 public:
  std::string name() const override { return device_->name(); }
  Arena reserve(MemorySpace space, std::size_t bytes) override { return device_->reserve(space, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override {
    ++writes;
    device_->write(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override { device_->read(to, from, bytes); }
  std::unique_ptr<Streams> make_streams(StreamOps ops) override {
    return device_->make_streams(std::move(ops));
  }
  int writes = 0;

 private:
  std::unique_ptr<Device> device_ = make_cpu_device();
};

// More than passes through the host's memory at once.
TEST(WeightRows, AreTheSameInPlaceAndByCopies) {
  constexpr int64_t kRows = 60'001, kColumns = 333;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    OpRegistry registry;
    register_engine_ops(registry);
    register_comm_ops(registry);
    Graph graph;
    LayerBuilder b(graph, registry, {0, 1, false}, dtype, {.sequence_length = 4});
    b.vocabulary_table("wte", kRows, kColumns, 0.5);
    Model model;
    model.parameters = b.parameters();
    Parameter& table = model.parameters.front();
    table.master = table.value;
    const std::string name = graph.value(table.value).name;
    KernelTable kernels;
    reference::register_kernels(kernels);
    const Program program = compile(std::move(graph), kernels);
    const auto self = make_self_communicator();
    const Mesh mesh(*self, training_axes(1, 1));
    const auto near = make_cpu_device();
    DistantDevice distant;
    ProgramMemory in_place(*near, {&program}), by_copies(distant, {&program});
    for (const ProgramMemory* memory : {&in_place, &by_copies})
      Weights(model, program.graph, *memory, mesh, false).initialize(3);
    const Tensor one = in_place.tensor(name), other = by_copies.tensor(name);
    EXPECT_EQ(std::memcmp(one.data, other.data, one.bytes()), 0);
    EXPECT_EQ(distant.writes, dtype == DType::kF32 ? 3 : 2);
    for (const int64_t row : {int64_t{0}, kRows / 2, kRows - 1}) {
      double expected[kColumns];
      draw(table, 0, row, 0, kColumns, 3, expected);
      for (int64_t c = 0; c < kColumns; ++c) {
        const auto drawn = static_cast<float>(expected[c]);
        const int64_t at = row * kColumns + c;
        if (dtype == DType::kF32)
          ASSERT_EQ(one.as<float>()[at], drawn);
        else
          ASSERT_EQ(one.as<bf16>()[at].bits, bf16(drawn).bits);
      }
    }
  }
}

}  // namespace
}  // namespace recollect::test::weights_test
