// Which of two ways to compute the same is taken: the one that is faster at first use. What is chosen stays, as the algorithms
// of products do (gemm_choices.h), so that two ways with bits of their own are no less exact: equal names give equal bits, in
// this run and in later ones, on every rank.
#pragma once

#include <functional>
#include <string>

namespace recollect::cuda {

class Libraries;

// Whether it is `one`. The name says all that the choice may depend on but the device; both enqueue on `stream` what may be
// run at any time before the first run.
bool is_faster(Libraries* libraries, const std::string& name, const std::function<void()>& one,
               const std::function<void()>& other, void* stream);

}  // namespace recollect::cuda
