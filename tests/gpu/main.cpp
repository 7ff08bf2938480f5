// The tests that need a GPU and the program in one, so that what is carried to a GPU holds our code once: a
// first word that is no flag is one of recollect's commands, and so is every word where it is called recollect.
#include <gtest/gtest.h>

#include <string_view>

#include "launch/cli/run_program.h"
#include "launch/cli/version.h"

int main(int argc, char** argv) {
  const bool is_recollect = argc > 0 && std::string_view(argv[0]).ends_with("recollect");
  if (is_recollect || (argc > 1 && argv[1][0] != '-'))
    return recollect::run_program(argc, argv, recollect::kCommit);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
