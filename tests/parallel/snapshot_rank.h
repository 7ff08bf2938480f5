// Ranks of a small model whose state tests of snapshots fill, save and compare.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "parallel/data_parts.h"
#include "parallel/layers.h"
#include "parallel/snapshot/manifest.h"
#include "parallel/snapshot/training_state.h"

namespace recollect::test::snapshot_test {

inline constexpr int64_t kWidth = 8, kInner = 16, kVocabulary = 77;  // 128 rows on one rank, padding included

// One rank of a model of a norm, q|k|v in blocks, an MLP and a vocabulary, with two moments of each parameter, which may
// be divided over the data ranks.
class Rank {
 public:
  Rank(Communicator& world, int tensor_size, double first, bool divided = false)
      : mesh_(world, training_axes(world.size() / tensor_size, tensor_size)), device_(make_cpu_device()) {
    register_engine_ops(registry_);
    register_comm_ops(registry_);
    Graph graph;
    LayerBuilder b(graph, registry_, {mesh_.tensor_rank(), tensor_size, false}, DType::kF32,
                   {.sequence_length = 4});
    ValueId x = graph.add_value({.name = "x",
                                 .shape = {4, kWidth},
                                 .dtype = DType::kF32,
                                 .category = Category::kInput,
                                 .persistent = true});
    x = b.norm("norm", x, {.weight = "norm.weight", .bias = "norm.bias"});
    b.column_linear("qkv", x, 16,
                    {.weight = "qkv.weight",
                     .bias = "qkv.bias",
                     .blocks = {8, 4, 4},
                     .weight_blocks = {"q.weight", "k.weight", "v.weight"},
                     .bias_blocks = {"q.bias", "k.bias", "v.bias"}});
    b.mlp("mlp", x,
          {.inner = kInner,
           .up = {.weight = "up.weight", .bias = "up.bias"},
           .down = {.weight = "down.weight"}});
    b.vocabulary_table("wte", kVocabulary, kWidth, 0.5);
    model_.parameters = b.parameters();
    for (Parameter& p : model_.parameters) {
      p.master = p.value;
      Shape shape = graph.value(p.value).shape;
      if (divided) shape[0] = p.part_rows = part_rows(shape, mesh_.data_size());
      for (const char* name : {"exp_avg", "exp_avg_sq"})
        p.states.push_back(
            {name, graph.add_value({.name = p.name + "." + name,
                                    .shape = shape,
                                    .dtype = DType::kF32,
                                    .category = Category::kOptimizer,
                                    .placement = divided ? Placement::sharded_over(kDataAxis) : Placement(),
                                    .persistent = true})});
    }
    KernelTable kernels;
    reference::register_kernels(kernels);
    register_comm_kernels(kernels, [this](std::string_view axis, StreamId stream) -> Communicator& {
      return mesh_.communicator(axis, stream);
    });
    program_ = compile(std::move(graph), kernels);
    memory_ = std::make_unique<ProgramMemory>(*device_, std::vector<const Program*>{&program_});
    state_ = std::make_unique<TrainingState>(model_, program_.graph, *memory_, mesh_);
    fill(first);
  }

  const TrainingState& state() const { return *state_; }
  const Mesh& mesh() const { return mesh_; }

  // Every element by its place in the world; what it was `first` for differs everywhere.
  void fill(double first) const {
    visit([&](float& value, const StateTensor& tensor, std::size_t number, int64_t row, int64_t column) {
      value = element(first, number, row * tensor.columns + column);
    });
  }
  void expect_filled(double first) const { EXPECT_EQ(others_than(first), 0); }
  // Elements that are not what fill() makes them.
  int others_than(double first) const {
    int wrong = 0;
    visit([&](float& value, const StateTensor& tensor, std::size_t number, int64_t row, int64_t column) {
      wrong += value != element(first, number, row * tensor.columns + column);
    });
    return wrong;
  }

 private:
  static float element(double first, std::size_t tensor, int64_t place) {
    return static_cast<float>(first + 10000.0 * static_cast<double>(tensor) + static_cast<double>(place));
  }
  template <typename Look>
  void visit(const Look& look) const {
    std::vector<float> values;
    for (const TrainingState::Part& part : state_->held_by(state_->world_rank())) {
      values.resize(part.bytes / sizeof(float));
      state_->read(part, 0, part.bytes, values.data());
      for (int64_t r = 0; r < part.place.rows; ++r)
        for (int64_t c = 0; c < part.place.columns; ++c)
          look(values[static_cast<std::size_t>(r * part.place.columns + c)], state_->tensors()[part.tensor],
               part.tensor, part.place.row + r, part.place.column + c);
      state_->write(part, 0, part.bytes, values.data());
    }
  }

  Mesh mesh_;
  OpRegistry registry_;
  Model model_;
  Program program_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<TrainingState> state_;
};

struct Layout {
  int ranks, tensor;
  bool divided = false;
};

inline TrainingProgress progress_at(int64_t step) {
  return {.step = step, .updates = step - 1, .samples = 8 * step, .loss_scale = 1024, .updates_at_scale = 3};
}

}  // namespace recollect::test::snapshot_test
