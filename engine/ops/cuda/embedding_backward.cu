// The gradient of a table of rows: every row's sum over the tokens that took it, in token order, whatever the
// scheduling. Tokens are sorted by row, stably; the sorted list is cut into chunks of equal size, so that a
// frequent row is many blocks' work; sums of rows that go on past a chunk's end wait in memory and are added
// up last.
#include "engine/ops/cuda/row_kernel.h"
#include "engine/runtime/cuda/enqueue.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kSortThreads = 1024;
constexpr int kRange = 512;  // rows that one block sorts tokens of
constexpr int kChunk = 64;   // sorted tokens
constexpr int kMostThreads = 256;

// Tokens in order of their rows, then of their numbers. Ids that are nobody's row are not among them.
struct Sorted {
  int32_t *rows, *tokens;
  int32_t* count;
};

// The sum of `x` over the threads before this one, and over all of them. By all threads of a block of one
// dim.
struct Prefix {
  int before, all;
};
__device__ Prefix sum_before(int x) {
  RECOLLECT_SHARED(of_warps, int[kWarp]);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  int upto = x;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int other = __shfl_up_sync(kAllLanes, upto, distance);
    if (lane >= distance) upto += other;
  }
  __syncthreads();
  if (lane == kWarp - 1) of_warps[warp] = upto;
  __syncthreads();
  const int mine = lane < warps ? of_warps[lane] : 0;
  const int all = reduce_warp<Sum>(mine), before_warp = reduce_warp<Sum>(lane < warp ? mine : 0);
  return {before_warp + upto - x, all};
}

// A block sorts the tokens of kRange rows by counting: it looks at all ids, first to learn where each of its
// rows begins, then to give every token its place, 1024 at a time and in order.
__global__ void __launch_bounds__(kSortThreads) sort_tokens(const int32_t* __restrict__ ids, int64_t tokens,
                                                            int64_t first_row, int64_t rows, Sorted sorted) {
  RECOLLECT_SHARED(next, int[kRange]);  // by row: how many tokens, then the place of its next one
  RECOLLECT_SHARED(found_rows, int[kSortThreads]);
  RECOLLECT_SHARED(found_tokens, int[kSortThreads]);
  const int64_t low = blockIdx.x * int64_t{kRange}, high = low + kRange < rows ? low + kRange : rows;
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;

  if (thread < kRange) next[thread] = 0;
  __syncthreads();
  int before = 0;
  for (int64_t t = thread; t < tokens; t += kSortThreads) {
    const int64_t row = ids[t] - first_row;
    if (row >= 0 && row < low) ++before;
    if (row >= low && row < high) atomicAdd(&next[row - low], 1);
  }
  const int begin = reduce_block<Sum>(before, 0);
  __syncthreads();
  const Prefix place = sum_before(thread < kRange ? next[thread] : 0);
  if (thread < kRange) next[thread] = begin + place.before;
  if (thread == 0 && high == rows) *sorted.count = begin + place.all;

  for (int64_t first = 0; first < tokens; first += kSortThreads) {
    const int64_t t = first + thread;
    const int64_t row = t < tokens ? ids[t] - first_row : -1;
    const bool mine = row >= low && row < high;
    const Prefix found = sum_before(mine);
    if (mine) {
      found_rows[found.before] = static_cast<int>(row - low);
      found_tokens[found.before] = static_cast<int>(t);
    }
    __syncthreads();
    for (int turn = 0; turn * kWarp < found.all; ++turn) {
      if (warp == turn) {
        const int i = turn * kWarp + lane;
        const int at = i < found.all ? found_rows[i] : -1;
        const unsigned same = __match_any_sync(kAllLanes, at), earlier = same & ((1u << lane) - 1);
        if (at >= 0) {
          const int to = next[at] + __popc(earlier);
          sorted.rows[to] = static_cast<int>(low) + at;
          sorted.tokens[to] = found_tokens[i];
        }
        __syncwarp();
        if (at >= 0 && earlier == 0) next[at] += __popc(same);
      }
      __syncthreads();
    }
  }
}

// A chunk's sums of its first row, if that began in an earlier chunk, and of its last, if that goes on.
struct Waiting {
  float *first, *last;  // [chunks, width] each
};

template <int N>
__device__ void deliver(float* to, Floats<N> sum, bool accumulate) {
  if (accumulate) {
    const Floats<N> earlier = load<N>(to);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += earlier[i];
  }
  store<N>(to, sum);
}

template <typename A, int N>
__global__ void __launch_bounds__(kMostThreads, 4)
    sum_chunk(const A* __restrict__ dy, Sorted sorted, int64_t width, float* dtable, Waiting waiting,
              bool accumulate) {
  constexpr int kAhead = 4;
  const int64_t column = (blockIdx.y * int64_t{blockDim.x} + threadIdx.x) * N;
  const int count = *sorted.count, first = blockIdx.x * kChunk;
  if (first >= count || column >= width) return;
  const int end = first + kChunk < count ? first + kChunk : count;
  const int64_t here = blockIdx.x * width + column;
  int row = sorted.rows[first];
  bool began = first == 0 || sorted.rows[first - 1] != row;
  Floats<N> sum{};
  const auto finish = [&] {
    if (began)
      deliver(dtable + row * width + column, sum, accumulate);
    else
      store<N>(waiting.first + here, sum);
  };
  for (int i = first; i < end; i += kAhead) {
    Floats<N> in[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (i + u < end) in[u] = load<N>(dy + sorted.tokens[i + u] * width + column);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (i + u >= end) break;
      if (sorted.rows[i + u] != row) {
        finish();
        row = sorted.rows[i + u];
        began = true;
        sum = {};
      }
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] += in[u][e];
    }
  }
  if (began && end < count && sorted.rows[end] == row)
    store<N>(waiting.last + here, sum);
  else
    finish();
}

// For every chunk whose last row begins there and goes on: the sums of all chunks that the row is in.
template <int N>
__global__ void __launch_bounds__(kMostThreads)
    join_chunks(Sorted sorted, int64_t width, float* dtable, Waiting waiting, bool accumulate) {
  const int64_t column = (blockIdx.y * int64_t{blockDim.x} + threadIdx.x) * N;
  const int count = *sorted.count, first = blockIdx.x * kChunk, end = first + kChunk;
  if (end >= count || column >= width) return;
  const int row = sorted.rows[end - 1];
  if (sorted.rows[end] != row || (first > 0 && sorted.rows[first - 1] == row)) return;
  Floats<N> sum = load<N>(waiting.last + blockIdx.x * width + column);
  int64_t chunk = blockIdx.x;
  bool goes_on = true;
  while (goes_on) {
    ++chunk;
    const Floats<N> more = load<N>(waiting.first + chunk * width + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += more[i];
    const int64_t next = (chunk + 1) * kChunk;
    goes_on = next < count && sorted.rows[next] == row;
  }
  deliver(dtable + row * width + column, sum, accumulate);
}

template <typename A, int N>
class EmbeddingBackward : public Kernel {
 public:
  explicit EmbeddingBackward(const OpView& view)
      : tokens_(view.in(0).shape.elements()),
        chunks_(ceil_div(tokens_, kChunk)),
        rows_(view.out(0).shape[0]),
        width_(view.out(0).shape[1]),
        first_row_(view.attributes().integer("first_row")) {
    require(tokens_ < int64_t{1} << 31, "embedding_backward numbers tokens in 32 bits");
    threads_ = static_cast<int>(std::min<int64_t>(ceil_div(width_, N * kWarp) * kWarp, kMostThreads));
  }

  std::size_t workspace_bytes() const override {
    return sizeof(float) * 2 * chunks_ * width_ + sizeof(int32_t) * (2 * tokens_ + 1);
  }

  void run(const KernelArgs& args) override {
    float* dtable = args.out[0].as<float>();
    float* first = reinterpret_cast<float*>(args.workspace);
    const Waiting waiting{first, first + chunks_ * width_};
    int32_t* numbers = reinterpret_cast<int32_t*>(waiting.last + chunks_ * width_);
    const Sorted sorted{numbers, numbers + tokens_, numbers + 2 * tokens_};
    if (!args.accumulate) clear_bytes(dtable, args.out[0].bytes(), args.stream);
    launch(sort_tokens, grid_of(ceil_div(rows_, kRange)), dim3(kSortThreads), 0, args.stream,
           args.in[0].as<int32_t>(), tokens_, first_row_, rows_, sorted);
    const dim3 grid = grid_of(chunks_, ceil_div(width_, int64_t{N} * threads_));
    launch(sum_chunk<A, N>, grid, dim3(threads_), 0, args.stream, args.in[1].as<A>(), sorted, width_, dtable,
           waiting, args.accumulate);
    launch(join_chunks<N>, grid, dim3(threads_), 0, args.stream, sorted, width_, dtable, waiting,
           args.accumulate);
  }

 private:
  int64_t tokens_, chunks_, rows_, width_, first_row_;
  int threads_;
};

}  // namespace

void register_embedding_backward(KernelTable& table) {
  add_row_kernel<EmbeddingBackward>(table, "embedding_backward", 1);
}

}  // namespace recollect::cuda
