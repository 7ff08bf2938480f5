// Finds out whether this processor's bf16 dot product is worth using. Processors that have the instruction
// differ in its speed: some start one or two per cycle, as many as f32 multiply-adds, and so do twice the
// work; on others it takes several times as long, and bf16 is multiplied faster after widening to f32.
#pragma once

namespace recollect::cpu {

// Measured once per process, in 1 ms if it is fast and in 20 ms if it is not, in registers only, as the best
// of many runs. The time ratio of the two kinds of processors is about one or about five, far from the limit,
// so a processor always gives the same answer. instruction_set() reports it.
bool dots_pay();

}  // namespace recollect::cpu
