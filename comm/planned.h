// A place in a world that does not exist: it knows its rank and its size, so that a program can be planned
// for it. Nobody answers, so every call, split included, is Error kInternal. The staging memory that it
// tells of is what a real one would take.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/communicator.h"

namespace recollect {

std::unique_ptr<Communicator> make_planned_communicator(int rank, int size, std::size_t staging_bytes);

}  // namespace recollect
