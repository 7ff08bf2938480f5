// Hides what tensor ranks tell each other behind products, on the communication stream.
//
// A forward product whose result is summed over the tensor ranks is cut along tokens: while one piece is summed, the
// next is multiplied. One whose input is gathered (sequence parallelism) is cut too: while one piece is multiplied, the
// next is handed round; and so is, in backward, the product of a gathered gradient with the weights. In backward the
// sum over the ranks of a gradient runs while the weights' gradients are multiplied, which nobody waits for.
//
// Pieces are a matter of model, batch, layout and device, never of a plan, and a recomputed product is cut as the first
// one was: a plan changes no bits. Nor do pieces change any, where a product's bits do not depend on how many rows it
// has and sums are in rank order: on the CPU. On a GPU each number of pieces has bits of its own: its library chooses an
// algorithm for the shape of a piece, and NCCL sums in an order that follows from a call's size.
//
// A GPU's products leave multiprocessors to what runs beside them (engine/nvidia/multiprocessors.h): pieces do, and the
// weights' gradients that are marked before anything is recomputed.
//
// Pieces lie in the memory of their whole, which an op that runs nothing makes one value again.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpointing/device_model.h"
#include "engine/graph/op_def.h"

namespace recollect {

inline constexpr const char* kBesideCollectives = "beside_collectives";  // an attribute of products
inline constexpr int64_t kInPlace = 0;            // pieces: collectives stay on the compute stream
inline constexpr int64_t kLeastRowsOfPiece = 64;  // tokens, of pieces that are chosen

// To be called on a differentiated graph before anything is recomputed: writes down which products are cut, into that
// many pieces or as many as they have rows for, and beside which weights' gradients collectives may run.
void mark_pieces(Graph& graph, int64_t pieces);

// Carries it out, where recomputation and moves are in the graph already and before gradients are reduced. With 1 piece
// nothing is cut, and sums of backward run beside the weights' gradients.
void overlap_collectives(Graph& graph, const OpRegistry& registry, int64_t pieces);

// All sums and gathers of tensor ranks for which the compute stream waits at once: it waits only where they are read.
void leave_compute_stream(Graph& graph);

// What a bound on a program may count on: of a graph that is to be cut so, neither the time of its collectives, which leave
// the compute stream, nor the workspaces, by op, of products that may be cut.
void leave_open_what_overlaps(Graph& graph, std::vector<uint64_t>& workspaces, int64_t pieces);

// The number of pieces, kInPlace, 1, 2, 4 or 8, with which a differentiated graph takes the simulator the least time. More
// of them must spare more than 1 %.
int64_t choose_pieces(const Graph& graph, const OpRegistry& registry, const DeviceModel& device);

}  // namespace recollect
