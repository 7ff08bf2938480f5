// The collectives of one rank through NCCL, on device memory and streams. One thread makes all calls on all
// communicators of a rank, in the same order on every rank.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/group.h"

namespace recollect::nccl {

// Collective. Returns the communicator of the world. With `threads`, the ranks are threads of one process,
// each with its own device.
std::unique_ptr<Communicator> join_nccl_world(Api api, std::shared_ptr<device::DeviceRuntime> runtime,
                                              Communicator& world, device::Watchdog::Settings settings,
                                              bool threads = false);

class NcclCommunicator final : public Communicator {
 public:
  // `host` connects the same ranks; `owned_host` is set if it was made for this communicator.
  NcclCommunicator(std::shared_ptr<Session> session, std::shared_ptr<Group> group, int rank,
                   Communicator& host, std::unique_ptr<Communicator> owned_host);
  ~NcclCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks().size()); }
  std::string name() const override;
  std::size_t staging_bytes() const override { return owned_host_ ? owned_host_->staging_bytes() : 0; }
  bool capturable() const override { return session_->capturable(); }
  std::size_t device_bytes() const override { return group_->device_bytes(); }
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override;
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override;
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override;
  void broadcast(const Tensor& tensor, int root, void* stream) override;
  void barrier() override;  // for the ranks' threads; it does not affect streams
  // The two threads first meet on the host, so that both know that they pass the same tensor.
  void pass(const Parcel& out, const Parcel& in, void* stream) override;
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<Communicator> split_beside_products(int color) override;
  void abort(const std::string& why) noexcept override;
  void check() override;
  bool share_memory(void* base, std::size_t bytes, Shared what) override;
  void unshare_memory() noexcept override;

 private:
  const Api& api() const { return session_->api(); }
  bool has_failed() const;
  bool is_on_one_node() const;  // collective
  // Uses the window if it contains everything that the call reads and writes.
  template <typename Enqueue>
  void launch(const CollectiveCall& call, std::initializer_list<Tensor> tensors, void* stream,
              Enqueue enqueue);
  std::unique_ptr<Communicator> split(int color, Config config);
  void meet(const CollectiveCall& send, int to, const CollectiveCall& receive, int from);

  std::shared_ptr<Session> session_;
  std::shared_ptr<Group> group_;
  const int rank_;
  Communicator& host_;
  std::unique_ptr<Communicator> owned_host_;
  uint64_t splits_ = 0;
};

}  // namespace recollect::nccl
