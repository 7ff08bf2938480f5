// The ways in which the planner may treat a layer: which of them there are, and what they take.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpointing/device_model.h"
#include "checkpointing/planner/layer_options.h"
#include "engine/runtime/lifetime.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::layer_options_test {
namespace {

// Three layers of four ops each, all of whose operands backward reads.
struct Layers : SmallGraph {
  explicit Layers(const Shape& shape, const std::vector<std::string>& sharded = {}) {
    enter(Phase::kForward, -1);
    std::vector<ValueId> read{op("e", {input("x", shape)})};
    for (int layer = 0; layer < 3; ++layer) {
      enter(Phase::kForward, layer);
      for (const char* name : {"a", "b", "c", "d"})
        read.push_back(op("layer" + std::to_string(layer) + "/" + name, {read.back()}));
    }
    enter(Phase::kForward, -1);
    ValueId gradient = op("f", {read.back()});
    for (std::size_t i = read.size(); i-- > 0;) {
      enter(Phase::kBackward, i + 1 < read.size() ? static_cast<int>(i / 4) : -1);
      gradient = op("g" + std::to_string(i), {gradient, read[i]});
    }
    for (const std::string& name : sharded)
      graph.value(graph.find(name)).placement = Placement::sharded_over(kTensorAxis);
  }
};

struct Made {
  Made(const Layers& layers, const Residences& in)
      : graph(layers.graph),
        saved(graph),
        device(device_preset("cpu")),
        bounds(graph, saved, device, {.tensor_size = 2}, {}),
        options(graph, saved, device, in, bounds, make_ladder(graph, saved, device)) {}

  // Where the values of layer 1 wait, with its option k and all other layers' first.
  std::vector<std::string> words(int k) const {
    const DraftPlan plan = options.plan_of({0, k, 0});
    std::vector<std::string> list;
    for (std::size_t i = 0; i < saved.values().size(); ++i)
      if (const Value& value = graph.value(saved.values()[i]);
          saved.values()[i] == saved.layer_inputs()[1] || (value.layer == 1 && value.name != "layer1/d"))
        list.push_back(word_of(plan.values[i]));
    return list;
  }
  bool has(const std::vector<std::string>& wanted) const {
    const auto& all = options.chain().layers[1].options;
    for (int k = 0; k < static_cast<int>(all.size()); ++k)
      if (words(k) == wanted) return true;
    return false;
  }

  const Graph& graph;
  SavedActivations saved;
  DeviceModel device;
  BoundMaker bounds;
  LayerOptions options;
};

TEST(LayerOptions, LetTheInputAloneWaitElsewhere) {
  const Layers layers({4, 6});
  const Made made(layers, {.host = true});
  EXPECT_TRUE(made.has({"device", "device", "device", "device"}));
  EXPECT_TRUE(made.has({"host", "device", "device", "device"}));
  EXPECT_TRUE(made.has({"host", "host", "host", "host"}));
}

// As the switches of a named mode have it.
TEST(LayerOptions, SendToTheHostWhatEachRankHasItsPartOf) {
  const Layers layers({64, 6}, {"layer1/a"});
  const Made made(layers, {.partition = true, .host = true});
  EXPECT_TRUE(made.has({"partitioned+host", "host", "partitioned+host", "partitioned+host"}));
}

// A part of a value that is smaller than what a layout aligns to.
TEST(LayerOptions, OfSmallValuesTakeNoLongTime) {
  const Layers layers({2, 4});
  const Made made(layers, {.partition = true, .host = true});
  for (const ChainOption& option : made.options.chain().layers[1].options) {
    EXPECT_LT(option.in, 1) << "seconds";
    EXPECT_LT(option.out, 1) << "seconds";
  }
}

}  // namespace
}  // namespace recollect::test::layer_options_test
