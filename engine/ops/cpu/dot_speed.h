// Whether this processor's bf16 dot product is worth using. All have the instruction in common, not its speed:
// some begin one, or two, every cycle, as of f32's multiply-add, and so do twice the work; on others it takes
// several times as long, and bf16 is multiplied faster when it is widened to f32.
#pragma once

namespace recollect::cpu {

// Timed once in a process, in 1 ms where it is and in 20 where it is not: registers alone, the best of many runs. The two
// kinds of processors are far to both sides of the limit, once and five times as long, so that a processor gives one
// answer, and instruction_set() tells it.
bool dots_pay();

}  // namespace recollect::cpu
