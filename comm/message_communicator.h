// Collectives made of messages between pairs of ranks, whatever carries them. A reduction sends every rank
// its share of all parts, each rank sums its share in rank order, and the shares travel back; chunked,
// through staging memory taken when the communicator is made. So sums have the same bits as over shared
// memory.
//
// Every call first exchanges a small record with all ranks: different calls are kRanksDisagree on all of
// them, and nobody leaves a call before everybody has come to it. The time of that exchange, in which a short
// message travels once, counts as waiting for who was the last to send. Where messages can be joined, the first
// of a collective's data goes with the record, so that a short call takes one message each way. Two ranks that
// pass a tensor do the same among themselves: the sender's record goes first, and the receiver's comes back.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/call_times.h"
#include "comm/collective_call.h"
#include "comm/wait_posts.h"

namespace recollect {

// Staging memory of a rank in a group of `size` ranks; none in a world of one.
std::size_t message_staging_bytes(int size);

class MessageCommunicator : public Communicator {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t staging_bytes() const override { return staging_.size(); }
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override;
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override;
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override;
  void broadcast(const Tensor& tensor, int root, void* stream) override;
  void barrier() override;
  void pass(const Parcel& out, const Parcel& in, void* stream) override;
  const CallTimes* times() const override { return &times_; }
  void note_calls_in(std::shared_ptr<CallLog> log) override { times_.note_in(std::move(log)); }
  void name_op(const char* op) override { times_.name_op(op); }

 protected:
  // `names` are the ranks as messages call them: world ranks. `posts` are the process's.
  MessageCommunicator(int rank, std::vector<int> names, std::shared_ptr<WaitPosts> posts);

  // How a wait for messages ended. A rank that has come and then stands still moves nothing for long: what carries
  // messages says so where it sees single bytes.
  struct Ended {
    int last = -1;   // the rank whose message was the last to come; -1 where none was awaited
    int stood = -1;  // the rank that moved again after the longest silence; -1: there was none
    CallTimes::Clock::duration silence{};  // of all silences of kSilence and more
  };
  static constexpr auto kSilence = std::chrono::milliseconds(5);

  // What carries messages. At most one send and one receive per rank are under way when wait_for_all is
  // called, none of them empty; messages of a pair arrive in order. Failures are fail()'s business.
  virtual void begin_send(const void* data, std::size_t bytes, int to) = 0;
  virtual void begin_receive(void* data, std::size_t bytes, int from) = 0;
  virtual Ended wait_for_all() = 0;
  // Whether a second send and receive per rank may be begun behind the first: a short one goes with it.
  // wait_for_all waits for the first ones alone, and the second ones take their places.
  virtual bool joins_messages() const { return false; }
  // Error kPeerLost about the call under way; nothing works afterwards.
  [[noreturn]] virtual void fail(const std::string& what) = 0;
  virtual bool has_failed() const = 0;
  // The ranks disagree: they may be at different places from now on.
  virtual void note_disagreement() noexcept = 0;
  // To all other ranks of the world that listen. Must not wait for anybody.
  virtual void tell(const WaitPost& post) noexcept = 0;

  // All have come to this call.
  void start(CollectiveCall call);
  // Everybody's `bytes` to everybody, in rank order. Returns who was the last to send them.
  int swap_with_all(const void* mine, void* all, std::size_t bytes);
  // Of a wait for these ranks of the group, in the call under way.
  void tell_of_wait(const std::vector<int>& missing, bool gives_up = false);
  // Who is to blame for such a wait, which has taken too long: the others hear that this rank gives up.
  std::string who_is_late(const std::vector<int>& missing, std::chrono::milliseconds timeout);
  const WaitPosts& posts() const { return *posts_; }
  const CollectiveCall& call() const { return call_; }
  // "all_reduce #17 of rank 3 (layer3/mlp/fc2)"
  std::string call_text() const {
    return call_.name() + " of rank " + std::to_string(own_name()) + times_.op_text();
  }
  int name_of_rank(int rank) const { return names_[rank]; }
  int own_name() const { return names_[rank_]; }

 private:
  void check_usable();
  // Throws what `check` throws, after which nothing works any more.
  template <typename Check>
  void agree(Check check);
  // The call's record is on its way, with the first messages begun afterwards where they are joined: the others'
  // records are waited for here or, then, before anything else is.
  void begin_call(CollectiveCall call);
  void meet_all();
  void begin_swap(const void* mine, void* all, std::size_t bytes);
  void meet(const CollectiveCall& send, int to, const CollectiveCall& receive, int from);
  // Until all have come, which is a wait for the last; and until all is transferred, whose silences are waits.
  void wait_for_peers();
  void finish_transfer();
  RankWait wait_for_ranks(const std::vector<int>& missing) const;
  void send_part(const void* data, std::size_t bytes, int to);
  void receive_part(void* data, std::size_t bytes, int from);
  void reduce_small(const Tensor& tensor, ReduceOp op);
  std::byte* staging(int rank) { return staging_.data() + static_cast<std::size_t>(rank) * share_bytes_; }

  const int rank_, size_;
  const std::vector<int> names_;
  const std::size_t share_bytes_;
  std::vector<std::byte> staging_;  // one share from every rank
  std::vector<const void*> parts_;
  std::vector<CollectiveCall> calls_;
  CollectiveCall call_;                    // the one under way
  CollectiveCall latest_, before_;         // the latest collectives
  std::vector<uint64_t> sent_, received_;  // tensors so far, by peer
  const std::shared_ptr<WaitPosts> posts_;
  const uint32_t slot_;  // of posts_
  CallTimes times_;
  CallTimes::Clock::time_point came_;  // to the call under way
  bool all_came_ = true;               // to it, or no collective is
  bool broken_ = false;
};

}  // namespace recollect
