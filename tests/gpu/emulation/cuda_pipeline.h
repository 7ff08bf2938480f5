// Stands in for CUDA's header of this name: copies into shared memory that happen as late as they may.
#pragma once

#include "tests/gpu/emulation/language.h"

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  recollect::emulation::copy_later(to, from, bytes);
}
inline void __pipeline_commit() { recollect::emulation::commit_copies(); }
inline void __pipeline_wait_prior(unsigned groups) { recollect::emulation::wait_for_copies(groups); }
