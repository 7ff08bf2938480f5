#include "launch/cli/run_program.h"
#include "launch/cli/version.h"

int main(int argc, char** argv) { return recollect::run_program(argc, argv, recollect::kCommit); }
