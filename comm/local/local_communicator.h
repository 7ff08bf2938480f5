// The collectives of one rank over a region. Data moves in chunks: every rank writes its chunk into its own
// slot, all ranks meet, and then they read each other's slots. Data that no other rank reads does not pass
// through the slots. Three buffers rotate: so one meeting per chunk is enough to keep writers away from slots
// that slower ranks still read. Between calls, slower ranks can only be reading the buffer of the latest
// chunk; the other two are free for tensors that two ranks pass.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/local/barrier.h"

namespace recollect::local {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Segment> segment, Region& region, int rank,
                    std::chrono::milliseconds timeout);
  ~LocalCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "local"; }
  std::size_t staging_bytes() const override { return kBuffers * region_.chunk_bytes; }
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override;
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override;
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override;
  void broadcast(const Tensor& tensor, int root, void* stream) override;
  void barrier() override;
  void pass(const Parcel& out, const Parcel& in, void* stream) override;
  const CallTimes* times() const override { return &times_; }
  void note_calls_in(std::shared_ptr<CallLog> log) override { times_.note_in(std::move(log)); }
  void name_op(const char* op) override { times_.name_op(op); }
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;
  std::optional<std::string> stop_reason() const override;

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    int64_t count() const { return end - begin; }
  };

  void check_usable() const;
  void start(CollectiveCall call);
  void meet();
  std::byte* slot(int rank, int buffer) const { return segment_->slot(region_, rank, buffer % kBuffers); }
  Range share_of(int rank, int64_t elements, std::size_t element_bytes) const;
  void reduce_small(const Tensor& tensor, ReduceOp op);
  void reduce_share(std::byte* chunk, int buffer, DType dtype, ReduceOp op, int64_t elements);
  void gather(const void* in, void* out, std::size_t bytes);
  uint64_t make_subregion(const std::vector<int>& members);

  std::shared_ptr<Segment> segment_;
  Region& region_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  Barrier barrier_;
  CollectiveCall call_;  // the current or latest collective
  bool agreed_ = true;   // all ranks are known to make call_
  bool broken_ = false;  // a call has failed: the ranks may be at different places
  int buffer_ = 0;       // the buffer that the next chunk uses
  std::vector<const void*> parts_;
  std::vector<CollectiveCall> calls_;
  std::vector<uint64_t> sent_, received_;  // number of tensors so far, by peer
  const std::vector<int> world_ranks_;
  CallTimes times_;
};

}  // namespace recollect::local
