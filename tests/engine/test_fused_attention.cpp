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
std::size_t too_much = 0;  // that graphs ask for beyond what cuDNN does

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
  const int64_t scores = 2 * rounded_up(p.length, 64) * rounded_up(p.length, 128);
  return 256 + too_much + (p.backward ? p.samples * p.heads * (scores + 4 * p.length) : 0);
}

void AttentionGraph::run(const AttentionOperands& operands, void* workspace, void*) {
  pieces_run.push_back({impl_->problem, operands, static_cast<std::byte*>(workspace)});
}

Library::Library(LibraryName name, const SearchPlaces&)
    : name_(std::move(name)), path_("/there/libcudnn.so.9") {}
Cudnn::Cudnn(const SearchPlaces& places) : library_({"cuDNN", "", ""}, places), version_(91900) {}
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

namespace {

using recollect::test::expect_error;

struct Case {
  int64_t samples, heads, length, head_size;
  double dropout = 0;
};

std::byte* address(uint64_t number) { return reinterpret_cast<std::byte*>(number << 40); }

// The two ops of one case, their operands at addresses far apart.
class FusedAttentionTest : public ::testing::Test {
 protected:
  void make(const Case& c, DType dtype = DType::kBF16) {
    case_ = c;
    graph_ = {};
    ops_.clear();
    const Shape wide{c.samples * c.length, 3 * c.heads * c.head_size};
    const Shape narrow{c.samples * c.length, c.heads * c.head_size};
    const auto value = [&](const char* name, const Shape& shape, DType type) {
      const ValueId id = graph_.add_value({.name = name, .shape = shape, .dtype = type});
      tensors_[name] = {address(id + 1), shape, type};
      return id;
    };
    const ValueId qkv = value("qkv", wide, dtype), o = value("o", narrow, dtype);
    const ValueId lse = value("lse", {c.samples * c.heads, c.length}, DType::kF32);
    const ValueId d_o = value("do", narrow, dtype), dqkv = value("dqkv", wide, dtype);
    const Attributes attributes{
        {"heads", c.heads},         {"head_size", c.head_size}, {"sequence_length", c.length},
        {"first_head", int64_t{0}}, {"all_heads", c.heads},     {"p", c.dropout},
        {"layer", int64_t{3}},      {"site", int64_t{1}}};
    ops_.push_back({.name = "attention", .attributes = attributes, .inputs = {qkv}, .outputs = {o, lse}});
    ops_.push_back(
        {.name = "backward", .attributes = attributes, .inputs = {d_o, qkv, o, lse}, .outputs = {dqkv}});
  }

  KernelPointer kernel(bool backward, Libraries* libraries) {
    const OpView view{graph_, ops_[backward]};
    return backward ? make_fused_attention_backward(view, libraries) : make_fused_attention(view, libraries);
  }

  // Prepares and runs one op, and says what graphs were run.
  std::vector<Piece> run(bool backward, bool training = true) {
    Libraries libraries(nullptr);
    const KernelPointer kernel = this->kernel(backward, &libraries);
    const std::vector<Tensor> forward_in = {tensors_["qkv"]}, forward_out = {tensors_["o"], tensors_["lse"]};
    const std::vector<Tensor> backward_in = {tensors_["do"], tensors_["qkv"], tensors_["o"], tensors_["lse"]};
    const std::vector<Tensor> backward_out = {tensors_["dqkv"]};
    RunState state;
    state.training = training;
    KernelArgs args{.in = backward ? backward_in : forward_in, .out = backward ? backward_out : forward_out};
    args.workspace = address(99) + 64;
    args.state = &state;
    kernel->prepare(args);
    pieces_run.clear();
    seeds_written = 0;
    kernel->run(args);
    end_of_workspace_ = args.workspace + kernel->workspace_bytes();
    return pieces_run;
  }

  // Where the numbers of a sample and a head begin.
  const std::byte* of_qkv(const char* name, int64_t sample, int64_t head, int part) {
    const int64_t width = case_.heads * case_.head_size;
    return element(name, sample * case_.length * 3 * width + part * width + head * case_.head_size);
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
      EXPECT_EQ(p.row_heads, case_.heads);
      EXPECT_EQ(p.length, case_.length);
      EXPECT_TRUE(p.causal && !p.padded);
      const auto [sample, head] = place(piece);
      for (int64_t s = 0; s < p.samples; ++s)
        for (int64_t h = 0; h < p.heads; ++h) EXPECT_TRUE(done.insert({sample + s, head + h}).second);
      EXPECT_EQ(piece.operands.q, of_qkv("qkv", sample, head, 0));
      EXPECT_EQ(piece.operands.k, of_qkv("qkv", sample, head, 1));
      EXPECT_EQ(piece.operands.v, of_qkv("qkv", sample, head, 2));
      EXPECT_EQ(piece.operands.o, of_o("o", sample, head));
      if (!p.backward) continue;
      EXPECT_EQ(piece.operands.d_o, of_o("do", sample, head));
      EXPECT_EQ(piece.operands.dq, of_qkv("dqkv", sample, head, 0));
      EXPECT_EQ(piece.operands.dk, of_qkv("dqkv", sample, head, 1));
      EXPECT_EQ(piece.operands.dv, of_qkv("dqkv", sample, head, 2));
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
                                         {1, 3, 40000, 64}})
    for (bool backward : {false, true}) {
      make(c);
      const std::vector<Piece> pieces = run(backward);
      expect_complete(pieces);
      expect_room(pieces);
      const bool cut = attention_chunks(c.samples, c.heads, c.length).size() > 1;
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
}

}  // namespace
}  // namespace recollect::recorded_cuda
