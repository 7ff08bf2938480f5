// Chooses the faster of two implementations of a computation by timing both at first use. The choice is kept
// with those of matrix products (gemm_choices.h). So even if the two differ in the last bits, equal names
// give equal bits in this run, in later runs, and on every rank.
#pragma once

#include <functional>
#include <string>

namespace recollect::cuda {

class Libraries;

// Returns true if `one` is chosen. The name must contain everything that the choice may depend on except the
// device. Both functions enqueue on `stream` work that is safe to run any number of times before the first
// run.
bool is_faster(Libraries* libraries, const std::string& name, const std::function<void()>& one,
               const std::function<void()>& other, void* stream);

}  // namespace recollect::cuda
