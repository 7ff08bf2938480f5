// Collectives made of messages between pairs of ranks. A reduction sends every rank its share of all parts,
// each rank sums its share in rank order, and the shares travel back; chunked, through staging memory taken
// when the communicator is made.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"

namespace recollect::mpi {

struct Settings {
  std::chrono::milliseconds timeout{};
  std::shared_ptr<std::atomic<bool>> failed;  // MPI can no longer be finalised
};

class MpiCommunicator final : public Communicator {
 public:
  // Owns `handle`, whose errors it has MPI return.
  MpiCommunicator(MPI_Comm handle, Settings settings);
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "mpi"; }
  std::size_t staging_bytes() const override { return staging_.size(); }
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override;
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override;
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override;
  void broadcast(const Tensor& tensor, int root, void* stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;

 private:
  enum Tag { kAgreement = 1, kPayload = 2 };

  void start(CollectiveCall call);
  void send(const void* data, std::size_t bytes, int to, Tag tag);
  void receive(void* data, std::size_t bytes, int from, Tag tag);
  void wait_for_all();
  bool progress();
  [[noreturn]] void fail(const std::string& what);
  void check(int status);
  void exchange(const void* mine, void* all, std::size_t bytes);
  std::byte* staging(int rank) { return staging_.data() + static_cast<std::size_t>(rank) * share_bytes_; }

  MPI_Comm handle_;
  Settings settings_;
  int rank_ = 0, size_ = 1;
  std::size_t share_bytes_ = 0;
  std::vector<std::byte> staging_;     // one share from every rank
  std::vector<MPI_Request> requests_;  // under way; at most two per rank
  std::vector<int> peers_;             // whom each request concerns
  std::vector<int> finished_;          // MPI_Testsome's answer
  std::vector<const void*> parts_;
  std::vector<CollectiveCall> calls_;
  std::vector<int> names_;  // the ranks, as world ranks
  CollectiveCall call_;
  bool broken_ = false;
};

}  // namespace recollect::mpi
