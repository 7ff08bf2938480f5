// Layouts of the same ops on smaller values exceed that of the larger ones nowhere.
#include "engine/runtime/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/graph/op_def.h"
#include "engine/runtime/lifetime.h"

namespace recollect::test::layout_test {
namespace {

struct Shapes {
  Graph graph;
  std::vector<uint64_t> workspaces;
};

// An op kind whose output has as many elements as it is told.
OpRegistry mixes() {
  OpRegistry registry;
  registry.add({.name = "mix", .infer = [](const OpView& view) {
                  return std::vector<OutputSpec>{
                      {.shape = {view.attributes().integer("elements")}, .dtype = DType::kF32}};
                }});
  return registry;
}

// So many ops, each of earlier values on a value of its own; sizes grow with `length`, each in its own way.
Shapes random_ops(const OpRegistry& registry, uint32_t seed, int64_t length) {
  std::mt19937 random(seed);
  const auto size = [&] {
    return (1 + static_cast<int64_t>(random() % 40)) * length + static_cast<int64_t>(random() % 900);
  };
  Shapes made;
  Graph& graph = made.graph;
  std::vector<ValueId> values{
      graph.add_value({.name = "x", .shape = {size()}, .category = Category::kInput, .persistent = true})};
  for (int i = 0; i < 60; ++i) {
    const std::string name = "op" + std::to_string(i);
    const auto earlier = [&] {
      return values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 12)];
    };
    const std::vector<ValueId> inputs{earlier(), earlier()};
    const int64_t elements = size();
    const ValueId out =
        graph.add_value({.name = name,
                         .shape = {elements},
                         .space = random() % 5 == 0 ? MemorySpace::kHost : MemorySpace::kDevice});
    graph.add_op({.def = registry.find("mix"),
                  .name = name,
                  .attributes = {{"elements", elements}},
                  .inputs = inputs,
                  .outputs = {out}});
    values.push_back(out);
    made.workspaces.push_back(random() % 3 == 0 ? static_cast<uint64_t>(4 * size()) : 0);
  }
  return made;
}

void expect_nothing_overlaps(const Shapes& made, const Schedule& schedule, const Layout& layout) {
  TransientBlocks all =
      find_blocks(made.graph, op_spans(made.graph, schedule), layout.storage, made.workspaces);
  for (std::size_t v = 0; v < all.of_value.size(); ++v)
    if (all.of_value[v] >= 0)
      all.blocks[static_cast<std::size_t>(all.of_value[v])].offset = layout.value_offsets[v];
  for (std::size_t op = 0; op < all.of_workspace.size(); ++op)
    if (all.of_workspace[op] >= 0)
      all.blocks[static_cast<std::size_t>(all.of_workspace[op])].offset = layout.workspace_offsets[op];
  for (std::size_t i = 0; i < all.blocks.size(); ++i) {
    const Block& a = all.blocks[i];
    const uint64_t end =
        a.space == MemorySpace::kDevice ? layout.ledger.arena_bytes() : layout.ledger.host_bytes;
    ASSERT_LE(a.offset + a.bytes, end);
    for (std::size_t j = 0; j < i; ++j) {
      const Block& b = all.blocks[j];
      ASSERT_FALSE(a.space == b.space && a.overlaps_in_time(b) && a.offset < b.offset + b.bytes &&
                   b.offset < a.offset + a.bytes);
    }
  }
}

// A product of a few rows is cut into fewer pieces than one of many.
TEST(Layout, OfOtherOpsKeepsItsOwnPlaces) {
  const OpRegistry registry = mixes();
  const Shapes few = random_ops(registry, 0, 8);
  const Schedule schedule = make_schedule(few.graph);
  const Layout other, alone = make_layout(few.graph, schedule, few.workspaces),
                      layout = make_layout(few.graph, schedule, few.workspaces, &other);
  EXPECT_EQ(layout.value_offsets, alone.value_offsets);
}

TEST(Layout, OfSmallerValuesFitsThatOfLarger) {
  const OpRegistry registry = mixes();
  int higher_by_itself = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Shapes large = random_ops(registry, seed, 512);
    const Layout larger = make_layout(large.graph, make_schedule(large.graph), large.workspaces);
    for (const int64_t length : {511, 510, 505, 480, 64}) {
      const Shapes small = random_ops(registry, seed, length);
      const Schedule schedule = make_schedule(small.graph);
      const Layout alone = make_layout(small.graph, schedule, small.workspaces),
                   layout = make_layout(small.graph, schedule, small.workspaces, &larger);
      expect_nothing_overlaps(small, schedule, layout);
      EXPECT_LE(layout.ledger.arena_bytes(), larger.ledger.arena_bytes()) << seed << ", " << length;
      EXPECT_LE(layout.ledger.host_bytes, larger.ledger.host_bytes) << seed << ", " << length;
      higher_by_itself += alone.ledger.arena_bytes() > larger.ledger.arena_bytes() ||
                          alone.ledger.host_bytes > larger.ledger.host_bytes;
    }
  }
  EXPECT_GT(higher_by_itself, 0) << "or this test would prove nothing";
}

}  // namespace
}  // namespace recollect::test::layout_test
