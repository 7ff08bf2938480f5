// The op kinds that comm adds to the engine, so that the engine need not know about ranks. All have the
// attributes `axis` ("tensor", "data", ...) and `size`, the number of ranks along that axis.
//
// kind                     inputs          outputs             gradient (after Megatron-LM)
// all_reduce               x               y = sum over ranks  dy itself: everything after it is replicated
//     `op` is "sum", the default, or "max", through which no gradient flows.
// copy_to_ranks            x               y = x               all_reduce of dy, since all ranks used x
// all_gather               x [n,...]       y [size * n,...]    reduce_scatter of dy
// reduce_scatter           x [size * n,..] y [n,...]           all_gather of dy
// gather_from_ranks        x [n,...]       y [size * n,...]    take_own_part of dy, which is replicated
// take_own_part            x [size * n,..] y [n,...]           gather_from_ranks of dy: x is replicated
// broadcast_rows           x [n,...]       y [rows,...]        none
//     Takes some rows of what all_gather would make: those from `first_row` on, as many as y has. y is given.
//     The rank whose x holds a row broadcasts it to all.
// joined_rows              N parts         y                   none
//     The parts lie in y, which is given, one after another, and fill it. Nothing runs: the op gives the
//     readers of y something to wait for.
// all_reduce_accumulators  N accumulators  the same N          none
//     The accumulators are members of the group of values with number `group`, in the group's order. They are
//     summed in place; members that are adjacent in memory are one call, padding included.
// reduce_scatter_accumulators N values     N accumulators      none
//     Sums each value over the ranks and gives this rank its rows, as many as the accumulator has. The value
//     has room for the rows of all ranks and is destroyed. The accumulator may be this rank's rows in it.
// all_gather_accumulators  N accumulators  N accumulators      none
//     Each output has room for the rows of all ranks; the input is this rank's rows inside it.
// gather_parts             N parts [n,...]  N values           none
//     Each output is given and has room for the rows of all ranks; the input is this rank's rows.
#pragma once

#include <functional>
#include <string_view>

#include "comm/communicator.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_comm_ops(OpRegistry& registry);

// Returns the communicator that does the collectives of an axis on a stream. It is called when kernels are
// made; the communicator must outlive them.
using CommunicatorLookup = std::function<Communicator&(std::string_view axis, StreamId stream)>;

void register_comm_kernels(KernelTable& table, const CommunicatorLookup& lookup);

}  // namespace recollect
