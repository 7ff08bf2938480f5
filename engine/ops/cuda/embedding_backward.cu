// The gradient of a table of rows. Each row's gradient is the sum of dy over the tokens that read the row,
// always in token order, so that it has the same bits in every run. Steps: sort_tokens sorts the tokens by
// row (stably); sum_chunk cuts the sorted list into chunks of equal size, so that many blocks share the work
// of a frequent row, and sums each; join_chunks adds up the sums of rows that span several chunks. A table of
// few rows, each read by very many tokens, is instead summed down the columns.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/sequences.h"
#include "engine/runtime/cuda/enqueue.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kSortThreads = 1024;
constexpr int kRange = 512;                     // rows whose tokens one block sorts
constexpr int kChunk = TableWorkspace::kChunk;  // sorted tokens per chunk
constexpr int kMostThreads = 256;

// The row that each token read from a table, or from this rank's shard of one.
struct Ids {
  const int32_t* ids;
  int64_t tokens, first_row, rows;
  int64_t padding_id;  // has no gradient; -1 is none

  // A result that is negative or at least `rows` means that no row here belongs to the token.
  __device__ int64_t row_of(int64_t token) const {
    return ids[token] == padding_id ? -1 : ids[token] - first_row;
  }
};

// The tokens in order of their rows, and of their numbers within a row. Tokens without a row here are left
// out.
struct Sorted {
  int32_t *rows, *tokens;
  int32_t* count;
};

// `before`: the sum of `x` over the threads before this one; `all`: over all threads. All threads of a
// one-dimensional block must call it.
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

// Counting sort: each block sorts the tokens of kRange rows. It reads all ids twice. The first pass counts
// the tokens of each row, which gives the place where each row begins. The second pass gives every token its
// place, 1024 tokens at a time and in order.
__global__ void __launch_bounds__(kSortThreads) sort_tokens(const Ids ids, Sorted sorted) {
  RECOLLECT_SHARED(next, int[kRange]);  // per row: number of tokens, then the place of its next token
  RECOLLECT_SHARED(found_rows, int[kSortThreads]);
  RECOLLECT_SHARED(found_tokens, int[kSortThreads]);
  const int64_t tokens = ids.tokens, low = blockIdx.x * int64_t{kRange};
  const int64_t high = low + kRange < ids.rows ? low + kRange : ids.rows;
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;

  if (thread < kRange) next[thread] = 0;
  __syncthreads();
  int before = 0;
  for (int64_t t = thread; t < tokens; t += kSortThreads) {
    const int64_t row = ids.row_of(t);
    if (row >= 0 && row < low) ++before;
    if (row >= low && row < high) atomicAdd(&next[row - low], 1);
  }
  const int begin = reduce_block<Sum>(before, 0);  // also waits for all threads
  const Prefix place = sum_before(thread < kRange ? next[thread] : 0);
  if (thread < kRange) next[thread] = begin + place.before;
  if (thread == 0 && high == ids.rows) *sorted.count = begin + place.all;

  for (int64_t first = 0; first < tokens; first += kSortThreads) {
    const int64_t t = first + thread;
    const int64_t row = t < tokens ? ids.row_of(t) : -1;
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

// Partial sums of each chunk: `first` for its first row if that began in an earlier chunk, `last` for its
// last row if that began here and continues in the next chunk.
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

// Handles each chunk whose last row begins in it and continues: adds up the partial sums of all chunks of
// that row.
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

// Computes a table's gradient from the gradients of the rows that tokens read, by the steps above.
template <typename A, int N>
class SortedSums {
 public:
  SortedSums(const TableWorkspace& cut, int64_t rows)
      : cut_(cut),
        rows_(rows),
        threads_(static_cast<int>(std::min<int64_t>(ceil_div(cut.width, N * kWarp) * kWarp, kMostThreads))) {}

  std::size_t workspace_bytes() const { return cut_.bytes(); }

  void run(const KernelArgs& args, const Ids& ids, const A* dy) const {
    float* dtable = args.out[0].as<float>();
    float* first = reinterpret_cast<float*>(args.workspace);
    const Waiting waiting{first, first + cut_.chunks * cut_.width};
    int32_t* numbers = reinterpret_cast<int32_t*>(waiting.last + cut_.chunks * cut_.width);
    const Sorted sorted{numbers, numbers + cut_.tokens, numbers + 2 * cut_.tokens};
    if (!args.accumulate) clear_bytes(dtable, args.out[0].bytes(), args.stream);
    launch(sort_tokens, grid_of(ceil_div(rows_, kRange)), dim3(kSortThreads), 0, args.stream, ids, sorted);
    const dim3 grid = grid_of(cut_.chunks, ceil_div(cut_.width, int64_t{N} * threads_));
    launch(sum_chunk<A, N>, grid, dim3(threads_), 0, args.stream, dy, sorted, cut_.width, dtable, waiting,
           args.accumulate);
    launch(join_chunks<N>, grid, dim3(threads_), 0, args.stream, sorted, cut_.width, dtable, waiting,
           args.accumulate);
  }

 private:
  TableWorkspace cut_;
  int64_t rows_;
  int threads_;
};

template <typename A, int N>
class EmbeddingBackward : public Kernel {
 public:
  explicit EmbeddingBackward(const OpView& view)
      : ids_{nullptr, view.in(0).shape.elements(), view.attributes().integer("first_row"),
             view.out(0).shape[0], unlearnt_id(view.attributes())},
        sums_(table_workspace(view), ids_.rows) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    ids_.ids = args.in[0].as<int32_t>();
    sums_.run(args, ids_, args.in[1].as<A>());
  }

 private:
  Ids ids_;
  SortedSums<A, N> sums_;
};

// Sums rows `row` and `row` + 1 of a table's gradient in one walk over dy.
template <typename A, int N>
struct TwoRowsBody {
  using Columns = OneVector<N>;
  struct Operands {
    Floats<N> dy;
    int32_t id;
  };
  static constexpr int kSums = 2, kRows = 2;

  const A* dy;
  const int32_t* ids;
  int32_t row, padding_id;
  int64_t width;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t token, int64_t unit) const {
    return {load<N>(dy + token * width + unit * N), ids[token] == padding_id ? -1 : ids[token]};
  }
  __device__ void apply(int64_t, int64_t, int, const Operands& in, float (*sums)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += in.id == row ? in.dy[i] : 0.0f;
      sums[1][i] += in.id == row + 1 ? in.dy[i] : 0.0f;
    }
  }
};

template <typename A, int N>
class AddEmbeddingBackward : public WalkKernel {
 public:
  explicit AddEmbeddingBackward(const OpView& view)
      : WalkKernel(view, N),
        first_token_(view.attributes().integer("first_token")),
        table_rows_(view.out(0).shape[0]),
        padding_id_(static_cast<int32_t>(unlearnt_id(view.attributes()))),
        few_(is_small_table(view)),
        bytes_(add_embedding_backward_bytes(view)),
        sums_({rows_, walk_.width}, table_rows_) {}
  std::size_t workspace_bytes() const override { return bytes_; }

  void run(const KernelArgs& args) override {
    const int32_t* ids = args.in[1].as<int32_t>() + first_token_;
    const A* dy = args.in[0].as<A>();
    if (!few_) return sums_.run(args, Ids{ids, rows_, 0, table_rows_, padding_id_}, dy);
    float* partials = reinterpret_cast<float*>(args.workspace);
    for (int64_t row = 0; row < table_rows_; row += 2) {
      const TwoRowsBody<A, N> body{dy, ids, static_cast<int32_t>(row), padding_id_, walk_.width};
      run_walk(walk_, body, rows_, partials, args.stream);
      for (int64_t r = row; r < std::min(row + 2, table_rows_); ++r)
        finish_sums(partials + (r - row) * walk_.blocks * walk_.width, walk_.blocks, walk_.width,
                    args.out[0].as<float>() + r * walk_.width, args.accumulate, args.stream);
    }
  }

 private:
  int64_t first_token_, table_rows_;
  int32_t padding_id_;
  bool few_;
  std::size_t bytes_;
  SortedSums<A, N> sums_;
};

}  // namespace

void register_embedding_backward(KernelTable& table) {
  add_row_kernel<EmbeddingBackward>(table, "embedding_backward", 1);
  add_row_kernel<AddEmbeddingBackward>(table, "add_embedding_backward");
}

}  // namespace recollect::cuda
