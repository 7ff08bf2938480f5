// The table of ops in engine/ops/ops.h names every kind that there is, and no other.
#include "tests/engine/op_table.h"

#include <gtest/gtest.h>

#include "engine/ops/ops.h"

namespace recollect::test::op_table_test {
namespace {

TEST(OpTable, HasTheKindsThatAreRegistered) {
  OpRegistry registry;
  register_engine_ops(registry);
  std::set<std::string> registered;
  for (const OpDef* def : registry.all()) registered.insert(def->name);
  EXPECT_EQ(kinds_in_table("engine/ops/ops.h"), registered);
}

}  // namespace
}  // namespace recollect::test::op_table_test
