// A communicator for a world that does not exist: it knows its rank and size, so that a program can be
// planned for that world. Every call, split included, throws Error kInternal. It reports the staging memory
// that a real one would take.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/communicator.h"

namespace recollect {

std::unique_ptr<Communicator> make_planned_communicator(int rank, int size, std::size_t staging_bytes);

}  // namespace recollect
