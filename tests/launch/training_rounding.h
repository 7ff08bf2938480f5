// What rounding does to a whole run, measured: the run is repeated in double on the reference backend with every result of
// every op disturbed as tests/engine/rounding.h says that an op's arithmetic disturbs it. The conditioning of the golden,
// the depth of its graph and the lengths of its sums are all in that; who computes it, and where, is not.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/engine/rounding.h"
#include "tests/launch/training_harness.h"

namespace recollect::test {

struct Bounds {
  std::vector<double> losses, norms;  // by step
  Tensors gradients, parameters;      // by element
};

// Of numbers that `run` computes in double on the reference backend, with the probe that it is given, by name and element.
Tensors rounding_bounds(DType dtype, const std::function<Tensors(ExecutorProbe*)>& run);

// Of a run in `dtype` of the configuration that `yaml` and `words` describe, which must be fp64 on the reference backend.
Bounds rounding_bounds(const std::string& yaml, const std::vector<std::string>& words, DType dtype);

// For numbers that a golden stores as float.
Tensors stored_as_float(Tensors bounds, const Tensors& numbers);

// The largest difference, in units of its bound.
double largest_share(const Tensors& expected, const Tensors& seen, const Tensors& bounds);

// Every number within its bound; a tensor that only `seen` has is expected to be zero.
void expect_within(const Tensors& expected, const Tensors& seen, const Tensors& bounds);
void expect_within(const std::vector<double>& expected, const std::vector<double>& seen,
                   const std::vector<double>& bounds, const std::string& what);

// Every set of instructions that this program has kernels for and this processor can run, and the configuration on it.
std::vector<std::string> isas_here();
std::vector<std::string> on_cpu(std::vector<std::string> words, const std::string& isa,
                                const std::string& precision = "fp32");

std::vector<double> losses_of(const Trained& trained);
std::vector<double> norms_of(const Trained& trained);

}  // namespace recollect::test
