// Divides a GPU between matrix products and the tensor ranks' collectives that run concurrently
// (parallelism.collective_pieces, parallelism.overlap_halves). NCCL is limited to this many thread blocks,
// each of which occupies a multiprocessor, and cuBLASLt chooses algorithms for the remaining ones. Otherwise
// a product that fills the device waits, in its last wave, for multiprocessors that a collective holds.
//
// The rule depends on what an op is, never on what runs beside it. Three kinds of products always use
// algorithms for the remaining multiprocessors: pieces of products, weight gradients that are followed by a
// sum over the ranks, and all products of layers in which the halves of a batch take turns. A plan can move
// the ops that run beside them. So a piece that is recomputed, long after its collective, uses the algorithm
// of the first run and gives the same bits.
#pragma once

namespace recollect::cuda {

inline constexpr int kMultiprocessorsOfCollectives = 16;

// Returns how many multiprocessors of a device with `all` are left for products that run beside collectives.
// 0 means all of them: on a small device too few would be left.
constexpr int multiprocessors_beside_collectives(int all) {
  return all >= 4 * kMultiprocessorsOfCollectives ? all - kMultiprocessorsOfCollectives : 0;
}

}  // namespace recollect::cuda
