// Times chains of both instructions. They are written in assembly, so that compiler settings do not change
// what is timed.
#include "engine/ops/cpu/dot_speed.h"

#include "engine/ops/cpu/depth_pairs.h"

#ifdef RECOLLECT_DOTS

#include <algorithm>
#include <chrono>
#include <thread>

namespace recollect::cpu {

namespace {

// Twelve independent chains of sums hide the latency of an instruction. All numbers are zero, because
// denormal f32 numbers would take longer.
#define RECOLLECT_CHAIN(instruction, sum) instruction " %%zmm0, %%zmm0, %%zmm" #sum "\n"
#define RECOLLECT_CHAINS(instruction) \
  RECOLLECT_CHAIN(instruction, 1)     \
  RECOLLECT_CHAIN(instruction, 2)     \
  RECOLLECT_CHAIN(instruction, 3)     \
  RECOLLECT_CHAIN(instruction, 4)     \
  RECOLLECT_CHAIN(instruction, 5)     \
  RECOLLECT_CHAIN(instruction, 6)     \
  RECOLLECT_CHAIN(instruction, 7)     \
  RECOLLECT_CHAIN(instruction, 8)     \
  RECOLLECT_CHAIN(instruction, 9)     \
  RECOLLECT_CHAIN(instruction, 10) RECOLLECT_CHAIN(instruction, 11) RECOLLECT_CHAIN(instruction, 12)
#define RECOLLECT_LOOP(instruction)                                                                          \
  asm volatile(RECOLLECT_CHAIN("vpxorq", 0)                                                                  \
                   RECOLLECT_CHAINS("vpxorq") "1:\n" RECOLLECT_CHAINS(instruction) "dec %0\njnz 1b"          \
               : "+r"(rounds)::"cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", \
                 "zmm9", "zmm10", "zmm11", "zmm12")

double seconds_of(bool dots) {
  const auto begun = std::chrono::steady_clock::now();
  int rounds = 1000;
  if (dots)
    RECOLLECT_LOOP("vdpbf16ps");
  else
    RECOLLECT_LOOP("vfmadd231ps");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

#undef RECOLLECT_LOOP
#undef RECOLLECT_CHAINS
#undef RECOLLECT_CHAIN

// Another process on the same core may slow one of the two down for a while, up to half, so a slow result is
// measured again.
bool measure() {
  constexpr int kLooks = 8, kRuns = 50;
  constexpr double kSurely = 1.5, kMost = 2.5;  // ratios of time: a dot product does twice the work
  double dots = 1, multiply_adds = 1;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int run = 0; run < kRuns; ++run) {
      multiply_adds = std::min(multiply_adds, seconds_of(false));
      dots = std::min(dots, seconds_of(true));
    }
    if (dots < kSurely * multiply_adds) return true;
  }
  return dots < kMost * multiply_adds;
}

}  // namespace

bool dots_pay() {
  static const bool pay = measure();
  return pay;
}

}  // namespace recollect::cpu

#else

namespace recollect::cpu {

bool dots_pay() { return false; }

}  // namespace recollect::cpu

#endif
