// How linear modules of the layers multiply 8-bit codes (layers_float8.cpp).
#pragma once

namespace recollect {

struct Fp8Settings {
  bool on = false;
  // The codes of weights are made once a step, for all its micro-batches, and once for all steps where nothing trains them;
  // else at every use.
  bool keeps_trained = false, keeps_frozen = false;
};

}  // namespace recollect
