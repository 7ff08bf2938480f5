// What the fused attention hands to cuDNN, piece by piece, without cuDNN: graphs here write down what they
// are asked for. Addresses are never followed, so sizes may be as large as they are on a device. The
// backend's source is compiled once more, in a namespace of this file's own.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "tests/engine/expect_error.h"

#define cuda recorded_cuda
#include "engine/ops/cuda/attention_fused.cpp"

namespace recollect::recorded_cuda {

namespace {

struct Piece {
  AttentionProblem problem;
  AttentionOperands operands;
  std::byte* workspace;
};

std::vector<Piece> pieces_run;
int64_t seeds_written = 0;
std::vector<int64_t> query_lengths_written;  // how many, and of how many tokens
const void* cleared = nullptr;               // gradients whose unseen keys were
std::size_t too_much = 0;                    // that graphs ask for beyond what cuDNN does

}  // namespace

bool has_fused_attention() { return true; }

class AttentionGraph::Impl {
 public:
  AttentionProblem problem;
};

AttentionGraph::AttentionGraph(const AttentionProblem& problem, const Cudnn&)
    : impl_(std::make_unique<Impl>(Impl{problem})) {}
AttentionGraph::~AttentionGraph() = default;

std::size_t AttentionGraph::workspace_bytes() const {
  const AttentionProblem& p = impl_->problem;
  const int64_t scores = p.in_order ? 4 * p.length * p.head_size + 8 * divided_up(p.length, 64)
                                    : 2 * rounded_up(p.length, 64) * rounded_up(p.length, 128);
  return 256 + too_much + (p.backward ? p.samples * p.heads * (scores + 4 * p.length) : 0);
}

void AttentionGraph::run(const AttentionOperands& operands, void* workspace, void*) {
  pieces_run.push_back({impl_->problem, operands, static_cast<std::byte*>(workspace)});
}

Library::Library(LibraryName name, const SearchPlaces&)
    : name_(std::move(name)), path_("/there/libcudnn.so.9"), version_(91900) {}
Cudnn::Cudnn(const SearchPlaces& places) : library_({"cuDNN", "", ""}, places) {}
Cudnn::~Cudnn() = default;
std::shared_ptr<AttentionGraph> Cudnn::attention(const AttentionProblem& problem) {
  return std::make_shared<AttentionGraph>(problem, *this);
}

class Cublas {};
Libraries::Libraries(std::unique_ptr<Cublas>) : cudnn_(std::make_unique<Cudnn>(SearchPlaces())) {}
Libraries::~Libraries() = default;
Cudnn& Libraries::cudnn() { return *cudnn_; }

void write_attention_seeds(const RunState*, const AttentionSite&, int64_t chunks, int64_t*, void*) {
  seeds_written = chunks;
}
void write_query_lengths(int64_t samples, int64_t length, int32_t*, void*) {
  query_lengths_written = {samples, length};
}
void clear_unseen_keys(const AttentionShape&, const int32_t*, const Tensor& gradients, void*) {
  cleared = gradients.data;
}

namespace {

using recollect::test::expect_error;

struct Case {
  int64_t samples, heads, length, head_size;
  double dropout = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  bool causal = true, lengths = false, own_kv = false, in_order = false;
  int64_t window = 0;
  double cap = 0, scale = 0;
};

std::byte* address(uint64_t number) { return reinterpret_cast<std::byte*>(number << 40); }

// The two ops of one case, their operands at addresses far apart.
class FusedAttentionTest : public ::testing::Test {
 protected:
  void make(Case c, DType dtype = DType::kBF16, int64_t first_head = 0) {
    if (c.kv_heads == 0) c.kv_heads = c.heads;
    case_ = c;
    graph_ = {};
    ops_.clear();
    tensors_.clear();
    const int64_t tokens = c.samples * c.length;
    const auto value = [&](const char* name, const Shape& shape, DType type) {
      const ValueId id = graph_.add_value({.name = name, .shape = shape, .dtype = type});
      tensors_[name] = {address(id + 1), shape, type};
      return id;
    };
    const Shape kv_shape{tokens, 2 * c.kv_heads * c.head_size}, o_shape{tokens, c.heads * c.head_size};
    const Shape q_shape{tokens, q_row()};
    const ValueId q = value("q", q_shape, dtype), o = value("o", o_shape, dtype);
    const ValueId lse = value("lse", {c.samples * c.heads, c.length}, DType::kF32);
    const ValueId d_o = value("do", o_shape, dtype), dq = value("dq", q_shape, dtype);
    const ValueId kv = c.own_kv ? value("kv", kv_shape, dtype) : kNone;
    const ValueId dkv = c.own_kv ? value("dkv", kv_shape, dtype) : kNone;
    const ValueId lengths = c.lengths ? value("lengths", {c.samples}, DType::kI32) : kNone;
    Attributes attributes{{"heads", c.heads},
                          {"kv_heads", c.kv_heads},
                          {"kv_group", c.heads / c.kv_heads},
                          {"head_size", c.head_size},
                          {"sequence_length", c.length},
                          {"causal", int64_t{c.causal}},
                          {"first_head", first_head},
                          {"all_heads", c.heads + first_head},
                          {"p", c.dropout},
                          {"layer", int64_t{3}},
                          {"site", int64_t{1}}};
    if (c.in_order) attributes.set(kKeysInOrder, int64_t{1});
    if (c.window > 0) attributes.set(kWindow, c.window);
    if (c.cap > 0) attributes.set(kScoreCap, c.cap);
    if (c.scale > 0) attributes.set(kScoreScale, c.scale);
    ops_.push_back(
        {.name = "attention", .attributes = attributes, .inputs = {q, kv, lengths}, .outputs = {o, lse}});
    ops_.push_back({.name = "backward",
                    .attributes = attributes,
                    .inputs = {d_o, q, o, lse, kv, lengths},
                    .outputs = {dq, dkv}});
  }

  int64_t kv_width() const { return 2 * case_.kv_heads * case_.head_size; }
  int64_t q_row() const { return case_.heads * case_.head_size + (case_.own_kv ? 0 : kv_width()); }
  int64_t kv_row() const { return case_.own_kv ? kv_width() : q_row(); }
  const char* kv_of(const char* joined, const char* own) const { return case_.own_kv ? own : joined; }

  KernelPointer kernel(bool backward, Libraries* libraries) {
    const OpView view{graph_, ops_[backward]};
    return backward ? make_fused_attention_backward(view, libraries) : make_fused_attention(view, libraries);
  }

  // Prepares and runs one op, and says what graphs were run.
  std::vector<Piece> run(bool backward, bool training = true) {
    Libraries libraries(nullptr);
    const KernelPointer kernel = this->kernel(backward, &libraries);
    const std::vector<Tensor> forward_in = {tensors_["q"], tensors_["kv"], tensors_["lengths"]},
                              forward_out = {tensors_["o"], tensors_["lse"]};
    const std::vector<Tensor> backward_in = {tensors_["do"],  tensors_["q"],  tensors_["o"],
                                             tensors_["lse"], tensors_["kv"], tensors_["lengths"]};
    const std::vector<Tensor> backward_out = {tensors_["dq"], tensors_["dkv"]};
    RunState state;
    state.training = training;
    KernelArgs args{.in = backward ? backward_in : forward_in, .out = backward ? backward_out : forward_out};
    args.workspace = address(99) + 64;
    args.state = &state;
    kernel->prepare(args);
    pieces_run.clear();
    seeds_written = 0;
    query_lengths_written.clear();
    cleared = nullptr;
    kernel->run(args);
    end_of_workspace_ = args.workspace + kernel->workspace_bytes();
    return pieces_run;
  }

  // Where the numbers of a sample and a head begin; `part` is 0 for k, 1 for v.
  const std::byte* of_q(const char* name, int64_t sample, int64_t head) {
    return element(name, sample * case_.length * q_row() + head * case_.head_size);
  }
  const std::byte* of_kv(const char* name, int64_t sample, int64_t head, int part) {
    const int64_t kv_head = head / (case_.heads / case_.kv_heads);
    return element(name, sample * case_.length * kv_row() + kv_row() - kv_width() +
                             (part * case_.kv_heads + kv_head) * case_.head_size);
  }
  const std::byte* of_o(const char* name, int64_t sample, int64_t head) {
    return element(name, sample * case_.length * case_.heads * case_.head_size + head * case_.head_size);
  }
  const std::byte* of_lse(int64_t sample, int64_t head) {
    return element("lse", (sample * case_.heads + head) * case_.length);
  }
  const std::byte* element(const char* name, int64_t index) {
    const Tensor& tensor = tensors_[name];
    return static_cast<std::byte*>(tensor.data) + index * static_cast<int64_t>(size_of(tensor.dtype));
  }

  // Every sample and head once, with the addresses of all its operands.
  void expect_complete(const std::vector<Piece>& pieces) {
    std::set<std::pair<int64_t, int64_t>> done;
    for (const Piece& piece : pieces) {
      const AttentionProblem& p = piece.problem;
      EXPECT_EQ(p.kv_heads * case_.heads, p.heads * case_.kv_heads);
      EXPECT_EQ(p.q_row, q_row());
      EXPECT_EQ(p.kv_row, kv_row());
      EXPECT_EQ(p.o_row, case_.heads * case_.head_size);
      EXPECT_EQ(p.length, case_.length);
      EXPECT_EQ(p.causal, case_.causal);
      EXPECT_EQ(p.padded, case_.lengths);
      const auto [sample, head] = place(piece);
      EXPECT_EQ(piece.operands.lengths, case_.lengths ? element("lengths", sample) : nullptr);
      for (int64_t s = 0; s < p.samples; ++s)
        for (int64_t h = 0; h < p.heads; ++h) EXPECT_TRUE(done.insert({sample + s, head + h}).second);
      EXPECT_EQ(piece.operands.q, of_q("q", sample, head));
      EXPECT_EQ(piece.operands.k, of_kv(kv_of("q", "kv"), sample, head, 0));
      EXPECT_EQ(piece.operands.v, of_kv(kv_of("q", "kv"), sample, head, 1));
      EXPECT_EQ(piece.operands.o, of_o("o", sample, head));
      if (!p.backward) continue;
      EXPECT_EQ(piece.operands.d_o, of_o("do", sample, head));
      EXPECT_EQ(piece.operands.dq, of_q("dq", sample, head));
      EXPECT_EQ(piece.operands.dk, of_kv(kv_of("dq", "dkv"), sample, head, 0));
      EXPECT_EQ(piece.operands.dv, of_kv(kv_of("dq", "dkv"), sample, head, 1));
    }
    EXPECT_EQ(static_cast<int64_t>(done.size()), case_.samples * case_.heads);
  }

  // Of the piece's first numbers, told by its place in lse.
  std::pair<int64_t, int64_t> place(const Piece& piece) {
    for (int64_t s = 0; s < case_.samples; ++s)
      for (int64_t h = 0; h < case_.heads; ++h)
        if (piece.operands.lse == of_lse(s, h)) return {s, h};
    ADD_FAILURE() << "a piece that begins nowhere";
    return {};
  }

  void expect_room(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.workspace) % 256, 0u);
      const AttentionGraph graph(piece.problem, Cudnn(SearchPlaces()));
      EXPECT_LE(piece.workspace + graph.workspace_bytes(), end_of_workspace_);
      if (piece.operands.random) {
        EXPECT_LE(static_cast<std::byte*>(piece.operands.random) + 16, piece.workspace);
      }
      if (piece.operands.query_lengths) {
        const auto* lengths = static_cast<std::byte*>(piece.operands.query_lengths);
        EXPECT_LE(lengths + 4 * case_.samples, piece.workspace);
        if (piece.operands.random) {
          EXPECT_LE(static_cast<std::byte*>(piece.operands.random) + 16, lengths);
        }
      }
    }
  }

  Case case_;
  Graph graph_;
  std::vector<Op> ops_;
  std::map<std::string, Tensor> tensors_;
  std::byte* end_of_workspace_ = nullptr;
};

TEST_F(FusedAttentionTest, PiecesAreTheWhole) {
  for (const Case& c : std::vector<Case>{{2, 3, 70, 40},
                                         {64, 12, 1024, 64},
                                         {16, 25, 1024, 64, 0.1},
                                         {2, 12, 8192, 128},
                                         {2, 12, 8192, 128, 0.1},
                                         {1, 3, 40000, 64},
                                         {8, 16, 512, 64, 0.1, 16, false, true},
                                         {2, 32, 4096, 128, 0, 8},
                                         {1, 12, 8192, 64, 0.1, 3, true, true, true}})
    for (bool backward : {false, true}) {
      make(c);
      const std::vector<Piece> pieces = run(backward);
      expect_complete(pieces);
      expect_room(pieces);
      const int64_t group = case_.heads / case_.kv_heads;
      const bool cut =
          attention_chunks(c.samples, c.heads, group, attention_unit_bytes(c.length, c.head_size, group))
              .size() > 1;
      EXPECT_EQ(pieces.size() > 1, cut && (backward || c.dropout > 0));
    }
}

TEST_F(FusedAttentionTest, ForwardAndBackwardDrawTheSameMasks) {
  make({16, 25, 1024, 64, 0.1});
  std::array<std::vector<std::array<int64_t, 5>>, 2> drawn;  // where, how much, and which seed
  for (bool backward : {false, true}) {
    const std::vector<Piece> pieces = run(backward);
    EXPECT_EQ(seeds_written, static_cast<int64_t>(pieces.size()));
    const auto* first = static_cast<std::byte*>(pieces.front().operands.random);
    for (const Piece& piece : pieces) {
      ASSERT_NE(piece.operands.random, nullptr);
      EXPECT_EQ(piece.problem.dropout, 0.1);
      const auto [sample, head] = place(piece);
      drawn[backward].push_back({sample, head, piece.problem.samples, piece.problem.heads,
                                 static_cast<std::byte*>(piece.operands.random) - first});
    }
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(drawn[0].size(), 2u);
}

// All queries are computed whatever the lengths are, and what no query sees has no gradient.
TEST_F(FusedAttentionTest, LengthsAreThoseOfKeys) {
  make({8, 16, 512, 64, 0, 4, false, true});
  for (bool backward : {false, true}) {
    const std::vector<Piece> pieces = run(backward);
    EXPECT_EQ(query_lengths_written, (std::vector<int64_t>{8, 512}));
    for (const Piece& piece : pieces) EXPECT_NE(piece.operands.query_lengths, nullptr);
    EXPECT_EQ(cleared, backward ? tensors_["dq"].data : nullptr);
  }
  make({8, 16, 512, 64, 0, 4, false, true, true});
  run(true);
  EXPECT_EQ(cleared, tensors_["dkv"].data);
  make({8, 16, 512, 64});
  run(true);
  EXPECT_TRUE(query_lengths_written.empty());
  EXPECT_EQ(cleared, nullptr);
}

TEST_F(FusedAttentionTest, WindowsAreItsOwnUnlessQueriesMaySeeNothing) {
  Case windowed{2, 4, 512, 64};
  windowed.window = 100, windowed.scale = 0.25;
  make(windowed);
  for (bool backward : {false, true})
    for (const Piece& piece : run(backward)) {
      EXPECT_EQ(piece.problem.window, 100);
      EXPECT_EQ(piece.problem.scale, 0.25);
    }
  make({2, 4, 512, 64});
  EXPECT_EQ(run(false).at(0).problem.window, 0);
  windowed.lengths = true;
  make(windowed);
  EXPECT_EQ(kernel(false, nullptr), nullptr);
  windowed.window = 512;
  make(windowed);
  EXPECT_NE(kernel(true, nullptr), nullptr);
  windowed.cap = 30;
  make(windowed);
  EXPECT_EQ(kernel(true, nullptr), nullptr);
}

TEST_F(FusedAttentionTest, AnEvaluationDrawsNone) {
  make({16, 25, 1024, 64, 0.1});
  const std::vector<Piece> pieces = run(false, false);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].problem.dropout, 0);
  EXPECT_EQ(pieces[0].operands.random, nullptr);
  EXPECT_EQ(seeds_written, 0);
  expect_complete(pieces);
}

TEST_F(FusedAttentionTest, ItsWorkspaceIsPredictedWithoutADevice) {
  make({64, 12, 1024, 64});
  const std::size_t backward = kernel(true, nullptr)->workspace_bytes();
  EXPECT_LE(backward, kAttentionChunkBytes + (1u << 20));
  EXPECT_LE(kernel(false, nullptr)->workspace_bytes(), 1u << 20);
  Libraries libraries(nullptr);
  EXPECT_EQ(kernel(true, &libraries)->workspace_bytes(), backward);
}

// Adding up in order takes about as much as q does, so that less is cut; forward draws the masks of those pieces.
TEST_F(FusedAttentionTest, InOrderItTakesLittle) {
  Case c{16, 25, 1024, 64, 0.1};
  make(c);
  const std::size_t scores = kernel(true, nullptr)->workspace_bytes();
  c.in_order = true;
  make(c);
  EXPECT_LT(3 * kernel(true, nullptr)->workspace_bytes(), scores);
  for (bool backward : {false, true}) {
    const std::vector<Piece> pieces = run(backward);
    expect_complete(pieces);
    expect_room(pieces);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces[0].problem.in_order, backward);
  }
  make({1, 1, 32768, 128, 0, 1, true, false, false, true});
  expect_room(run(true));
  EXPECT_LE(kernel(true, nullptr)->workspace_bytes(), 18u << 20);
}

TEST_F(FusedAttentionTest, AskingForMoreIsAnErrorWithBothNumbers) {
  make({1, 2, 128, 64});
  const std::size_t predicted = 2 * attention_unit_bytes(128) + kAttentionOtherBytes;
  const std::size_t asked = 256 + 2 * (2 * 128 * 128 + 4 * 128) + (1 << 20);
  too_much = 1 << 20;
  expect_error(ExitCode::kDeviceMemory, {std::to_string(predicted), std::to_string(asked), "libcudnn.so.9"},
               [&] { run(true); });
  too_much = 0;
}

TEST_F(FusedAttentionTest, WhatCudnnDoesNotDoIsLeftToOthers) {
  const auto suits = [&](const Case& c, DType dtype) {
    make(c, dtype);
    EXPECT_EQ(kernel(false, nullptr) == nullptr, kernel(true, nullptr) == nullptr);
    return kernel(false, nullptr) != nullptr;
  };
  EXPECT_TRUE(suits({1, 2, 128, 64}, DType::kBF16));
  EXPECT_TRUE(suits({1, 2, 128, 128}, DType::kF16));
  EXPECT_TRUE(suits({1, 2, 2, 8}, DType::kF16));
  EXPECT_FALSE(suits({1, 2, 128, 64}, DType::kF32));
  EXPECT_FALSE(suits({1, 2, 128, 12}, DType::kBF16));
  EXPECT_FALSE(suits({1, 2, 128, 136}, DType::kBF16));
  EXPECT_FALSE(suits({1, 2, 1, 64}, DType::kBF16));
  // Heads of a rank that begin in the middle of a group, and so share unevenly.
  make({1, 4, 128, 64, 0, 2}, DType::kBF16, 2);
  EXPECT_NE(kernel(false, nullptr), nullptr);
  make({1, 4, 128, 64, 0, 2}, DType::kBF16, 1);
  EXPECT_EQ(kernel(false, nullptr), nullptr);
  EXPECT_EQ(kernel(true, nullptr), nullptr);
}

}  // namespace
}  // namespace recollect::recorded_cuda
