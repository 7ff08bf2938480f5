#include "comm/collective_call.h"

#include <algorithm>
#include <vector>

#include "comm/reduction.h"

namespace recollect {
namespace {

const char* verb_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kSplit:
      return "split";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kReceive:
      return "receive";
  }
  return "unknown collective";
}

// These checks run in every call, so a message is made only when one fails: nothing here allocates otherwise.
void check_reducible(const char* collective, DType dtype) {
  if (is_reducible(dtype)) return;
  require(false, std::string(collective) + " of " + std::string(name_of(dtype)) + " does not exist");
}

// `whole` must hold `size` parts.
void check_parts(const char* collective, const Tensor& part, const Tensor& whole, int size) {
  if (part.dtype == whole.dtype && part.bytes() * static_cast<std::size_t>(size) == whole.bytes()) return;
  require(false, std::string(collective) + " over " + std::to_string(size) + " ranks: the part is " +
                     std::string(name_of(part.dtype)) + " " + part.shape.to_string() + ", the whole is " +
                     std::string(name_of(whole.dtype)) + " " + whole.shape.to_string());
}

CollectiveCall pair_call(CollectiveKind kind, const Parcel& parcel, uint64_t sequence, int peer) {
  if (!parcel) return {};
  return {.sequence = sequence,
          .bytes = parcel.tensor.bytes(),
          .root = peer,
          .kind = kind,
          .dtype = parcel.tensor.dtype};
}

Error disagreement(const std::string& calls) {
  return {ExitCode::kRanksDisagree, "the ranks make different calls: " + calls,
          "every rank must run the same program on the same shapes; compare the ranks' configurations"};
}

}  // namespace

std::string CollectiveCall::name() const {
  std::string peer;
  if (kind == CollectiveKind::kSend) peer = " to rank " + std::to_string(root);
  if (kind == CollectiveKind::kReceive) peer = " from rank " + std::to_string(root);
  return std::string(verb_of(kind)) + " #" + std::to_string(sequence) + peer;
}

std::string CollectiveCall::to_string() const {
  if (kind == CollectiveKind::kBarrier || kind == CollectiveKind::kSplit) return name();
  std::string detail;
  if (kind == CollectiveKind::kAllReduce) detail = op == ReduceOp::kSum ? "sum, " : "max, ";
  if (kind == CollectiveKind::kBroadcast) detail = "from rank " + std::to_string(root) + ", ";
  return name() + " (" + detail + std::string(name_of(dtype)) + ", " + std::to_string(bytes) + " bytes)";
}

CollectiveCall all_reduce_call(const Tensor& tensor, ReduceOp op) {
  check_reducible("all_reduce", tensor.dtype);
  return {.bytes = tensor.bytes(), .kind = CollectiveKind::kAllReduce, .dtype = tensor.dtype, .op = op};
}

CollectiveCall all_gather_call(const Tensor& in, const Tensor& out, int size) {
  check_parts("all_gather", in, out, size);
  return {.bytes = in.bytes(), .kind = CollectiveKind::kAllGather, .dtype = in.dtype};
}

CollectiveCall reduce_scatter_call(const Tensor& in, const Tensor& out, int size) {
  check_reducible("reduce_scatter", in.dtype);
  check_parts("reduce_scatter", out, in, size);
  return {.bytes = in.bytes(), .kind = CollectiveKind::kReduceScatter, .dtype = in.dtype};
}

CollectiveCall broadcast_call(const Tensor& tensor, int root, int size) {
  if (root < 0 || root >= size)
    require(false, "broadcast from rank " + std::to_string(root) + " in a group of " + std::to_string(size) +
                       " ranks");
  return {.bytes = tensor.bytes(), .root = root, .kind = CollectiveKind::kBroadcast, .dtype = tensor.dtype};
}

bool is_copy(const Parcel& out, const Parcel& in, int rank, int size) {
  require(out || in, "nothing is sent and nothing received");
  if (out.peer >= size || in.peer >= size)
    require(false, "rank " + std::to_string(std::max(out.peer, in.peer)) + " is none of a group of " +
                       std::to_string(size) + " ranks");
  if (out.peer != rank && in.peer != rank) return false;
  if (out.peer != in.peer)
    require(false, "rank " + std::to_string(rank) +
                       " passes a tensor to itself, or from itself, alone: it would wait " + "for ever");
  if (out.tensor.dtype != in.tensor.dtype || out.tensor.bytes() != in.tensor.bytes())
    require(false, "rank " + std::to_string(rank) + " passes itself " +
                       std::string(name_of(out.tensor.dtype)) + " " + out.tensor.shape.to_string() + " as " +
                       std::string(name_of(in.tensor.dtype)) + " " + in.tensor.shape.to_string());
  return true;
}

CollectiveCall send_call(const Parcel& out, uint64_t sequence, int peer) {
  return pair_call(CollectiveKind::kSend, out, sequence, peer);
}

CollectiveCall receive_call(const Parcel& in, uint64_t sequence, int peer) {
  return pair_call(CollectiveKind::kReceive, in, sequence, peer);
}

bool match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs) {
  CollectiveCall expected = mine;
  expected.kind = mine.kind == CollectiveKind::kSend ? CollectiveKind::kReceive : CollectiveKind::kSend;
  expected.root = rank;
  return theirs == expected;
}

void check_match(const CollectiveCall& mine, int rank, const CollectiveCall& theirs) {
  if (match(mine, rank, theirs)) return;
  throw disagreement("rank " + std::to_string(rank) + ": " + mine.to_string() + "; rank " +
                     std::to_string(mine.root) + ": " + theirs.to_string());
}

void check_agreement(std::span<const CollectiveCall> calls, std::span<const int> ranks) {
  if (std::all_of(calls.begin(), calls.end(), [&](const CollectiveCall& c) { return c == calls[0]; })) return;
  std::string text;
  std::vector<bool> told(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (told[i]) continue;
    std::vector<int> same;
    for (std::size_t j = i; j < calls.size(); ++j) {
      if (!(calls[j] == calls[i])) continue;
      told[j] = true;
      same.push_back(ranks[j]);
    }
    text += (i ? "; " : "") + name_ranks(same) + ": " + calls[i].to_string();
  }
  throw disagreement(text);
}

std::string name_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace recollect
