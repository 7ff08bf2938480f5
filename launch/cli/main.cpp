#include "launch/cli/run_program.h"

int main(int argc, char** argv) { return recollect::run_program(argc, argv); }
