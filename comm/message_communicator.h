// Collectives made of messages between pairs of ranks, over any transport. A reduction works in three steps:
// every rank sends each other rank that rank's share of its data, each rank sums its share in rank order, and
// the summed shares travel back. It works in chunks, through staging memory allocated when the communicator
// is made. Sums have the same bits as over shared memory.
//
// Every call first exchanges a small record with all ranks. If the calls differ, all ranks throw
// kRanksDisagree, and no rank leaves a call before every rank has entered it. The time of that exchange,
// including one short message, counts as waiting for the rank that sent last. If the transport can join
// messages, the first data of a collective goes with the record, so that a short call takes one message each
// way. Two ranks that pass a tensor do the same between themselves: the sender's record goes first, and the
// receiver's comes back.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/call_times.h"
#include "comm/collective_call.h"
#include "comm/wait_posts.h"

namespace recollect {

// Staging bytes of a rank in a group of `size` ranks; none in a world of one.
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
  // `names`: the world ranks, by which messages name the ranks. `posts` belong to the process.
  MessageCommunicator(int rank, std::vector<int> names, std::shared_ptr<WaitPosts> posts);

  // How a wait for messages ended. A rank that has entered the call and then stops moves nothing for long; a
  // transport that sees single bytes reports such silences.
  struct Ended {
    int last = -1;   // the rank whose message came last; -1 if none was awaited
    int stood = -1;  // the rank that moved again after the longest silence; -1 if there was none
    CallTimes::Clock::duration silence{};  // the sum of all silences of at least kSilence
  };
  static constexpr auto kSilence = std::chrono::milliseconds(5);

  // The transport. When wait_for_all is called, at most one send and one receive per rank are pending, none
  // of them empty; messages of a pair arrive in order. Failures go through fail().
  virtual void begin_send(const void* data, std::size_t bytes, int to) = 0;
  virtual void begin_receive(void* data, std::size_t bytes, int from) = 0;
  virtual Ended wait_for_all() = 0;
  // Returns true if a second send and receive per rank may begin after the first: a short message then
  // travels with it. wait_for_all waits for the first ones only, and the second ones take their place.
  virtual bool joins_messages() const { return false; }
  // Throws Error kPeerLost about the current call; nothing works afterwards.
  [[noreturn]] virtual void fail(const std::string& what) = 0;
  virtual bool has_failed() const = 0;
  // Notes that the ranks disagree: they may be in different calls from now on.
  virtual void note_disagreement() noexcept = 0;
  // Sends the post to all other ranks of the world that listen. Must not wait.
  virtual void tell(const WaitPost& post) noexcept = 0;

  // Begins a call and returns when all ranks have entered it.
  void start(CollectiveCall call);
  // Gathers `bytes` from every rank on every rank, in rank order. Returns the rank that sent last.
  int swap_with_all(const void* mine, void* all, std::size_t bytes);
  // Tells others that this rank waits for these ranks of the group in the current call.
  void tell_of_wait(const std::vector<int>& missing, bool gives_up = false);
  // Returns which rank is to blame for such a wait that has timed out, and tells the others that this rank
  // gives up.
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
  // Runs `check`. If it throws, the communicator is unusable afterwards.
  template <typename Check>
  void agree(Check check);
  // begin_call() sends the call's record; where messages are joined, the first data messages may follow at
  // once. meet_all() waits for the others' records.
  void begin_call(CollectiveCall call);
  void meet_all();
  void begin_swap(const void* mine, void* all, std::size_t bytes);
  void meet(const CollectiveCall& send, int to, const CollectiveCall& receive, int from);
  // wait_for_peers() waits until all have entered: that time is waiting. finish_transfer() waits for all
  // transfers: only their silences count as waiting.
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
  CollectiveCall call_;                    // the current one
  CollectiveCall latest_, before_;         // the latest collectives
  std::vector<uint64_t> sent_, received_;  // number of tensors so far, by peer
  const std::shared_ptr<WaitPosts> posts_;
  const uint32_t slot_;  // this communicator's number in posts_
  CallTimes times_;
  CallTimes::Clock::time_point came_;  // when this rank entered the current call
  bool all_came_ = true;               // all ranks have entered the current collective, or there is none
  bool broken_ = false;
};

}  // namespace recollect
