// The op kinds that comm contributes, so that the engine need not know of ranks. All carry `axis` ("tensor",
// "data", ...) and `size`, the number of ranks on it.
//
// kind                     inputs          outputs             gradient (after Megatron-LM)
// all_reduce               x               y = sum over ranks  dy itself: what follows is replicated
//     `op` is "sum", the default, or "max", through which no gradient flows.
// copy_to_ranks            x               y = x               all_reduce of dy: x was used by all
// all_gather               x [n,...]       y [size * n,...]    reduce_scatter of dy
// reduce_scatter           x [size * n,..] y [n,...]           all_gather of dy
// gather_from_ranks        x [n,...]       y [size * n,...]    take_own_part of dy, which is replicated
// take_own_part            x [size * n,..] y [n,...]           gather_from_ranks of dy: x is replicated
// broadcast_rows           x [n,...]       y [rows,...]        none
//     Of what all_gather makes the rows from `first_row` on, as many as y has, which is given: each handed to all by
//     the rank whose x it is in.
// joined_rows              N parts         y                   none
//     The parts lie in y, which is given, behind one another, and are all of it. Nothing runs: what reads y has
//     something to wait for.
// all_reduce_accumulators  N accumulators  the same N          none
//     Members of the group of values whose number is `group`, in its order, summed in place: those that stand
//     side by side in one call, padding included.
// reduce_scatter_accumulators N values     N accumulators      none
//     Of the sum over ranks of each value this rank's rows, as many as the accumulator has. The value has room for the
//     rows of all ranks, and what it holds is destroyed. The accumulator may be those rows themselves.
// all_gather_accumulators  N accumulators  N accumulators      none
//     Each output has room for the rows of all ranks; the input is this rank's, where they lie in it.
// gather_parts             N parts [n,...]  N values           none
//     Each output is given, and has room for the rows of all ranks, of which the input is this one's.
#pragma once

#include <functional>
#include <string_view>

#include "comm/communicator.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_comm_ops(OpRegistry& registry);

// Who does the collectives of an axis on a stream. Asked when kernels are made; must outlive them.
using CommunicatorLookup = std::function<Communicator&(std::string_view axis, StreamId stream)>;

void register_comm_kernels(KernelTable& table, const CommunicatorLookup& lookup);

}  // namespace recollect
