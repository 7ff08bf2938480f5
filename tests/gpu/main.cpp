// The tests that need a GPU and the program in one, so that what is carried to a GPU holds our code once: a
// first word that is no flag is one of recollect's commands.
#include <gtest/gtest.h>

#include "launch/cli/run_program.h"

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') return recollect::run_program(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
