// How a GPU is shared by products and the tensor ranks' collectives that run beside them (parallelism.collective_pieces,
// parallelism.overlap_halves): NCCL is let have at most so many thread blocks, each of which fills a multiprocessor, and
// cuBLASLt is told to choose algorithms for the rest. Otherwise a product that fills the device waits, in its last wave, for
// multiprocessors that a collective holds.
//
// The rule goes by what an op is, never by what happens to run beside it: pieces of products, the products of weights'
// gradients behind which there is a sum over the ranks, and all products of layers where the halves of a batch take turns
// are chosen for the rest wherever they stand. For a plan moves what they stand beside. So a piece that is recomputed, when
// its collective is long over, has the algorithm of the first one, and its bits.
#pragma once

namespace recollect::cuda {

inline constexpr int kMultiprocessorsOfCollectives = 16;

// For products that run beside collectives, of a device with so many; 0: all, as where few would be left.
constexpr int multiprocessors_beside_collectives(int all) {
  return all >= 4 * kMultiprocessorsOfCollectives ? all - kMultiprocessorsOfCollectives : 0;
}

}  // namespace recollect::cuda
