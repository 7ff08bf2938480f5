// What the cuda backend's kernels take of memory is known without them: for every case of the op table, what stands in for them in
// builds without CUDA asks for the same bytes.
#include <gtest/gtest.h>

#include "engine/ops/cuda/planned_kernels.h"
#include "tests/engine/op_harness.h"

namespace recollect::test::planned_kernels_test {
namespace {

class OtherParts final : public VocabularyReduction {
 public:
  void max(double*, int64_t, void*) override {}
  void sum(double*, int64_t, void*) override {}
  void max(float*, int64_t, void*) override {}
  void sum(float*, int64_t, void*) override {}
};

TEST(PlannedKernels, TakeWhatKernelsTake) {
  OpRegistry registry;
  register_engine_ops(registry);
  OtherParts parts;
  for (VocabularyReduction* vocabulary :
       {static_cast<VocabularyReduction*>(nullptr), static_cast<VocabularyReduction*>(&parts)}) {
    KernelTable kernels, planned;
    cuda::register_kernels(kernels, vocabulary, nullptr);
    cuda::add_planned_kernels(planned, vocabulary);
    std::size_t compared = 0;
    for (const OpCase& c : op_cases())
      for (const Precision precision : {kFloat, kBfloat16, kFloat16}) {
        const Graph graph = make_graph(c, registry, precision);
        for (OpId id : graph.op_ids()) {
          const OpView view{graph, graph.op(id)};
          EXPECT_EQ(planned.make(view)->workspace_bytes(), kernels.make(view)->workspace_bytes())
              << c.name << " in " << name_of(precision.activation);
          ++compared;
        }
      }
    EXPECT_GT(compared, 300u);
  }
}

TEST(PlannedKernels, CannotRun) {
  OpRegistry registry;
  register_engine_ops(registry);
  KernelTable planned;
  cuda::add_planned_kernels(planned, nullptr);
  const Graph graph = make_graph(op_cases().front(), registry, kFloat);
  EXPECT_THROW(planned.make({graph, graph.op(0)})->run({}), Error);
}

}  // namespace
}  // namespace recollect::test::planned_kernels_test
