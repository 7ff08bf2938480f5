// The collectives of one rank by NCCL, on device memory and streams. All calls on all communicators of a rank
// are made by one thread, in the same order on every rank.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/group.h"

namespace recollect::nccl {

// Collective: the world's communicator.
// With `threads`, ranks are threads of one process with a device each.
std::unique_ptr<Communicator> join_nccl_world(Api api, std::shared_ptr<device::DeviceRuntime> runtime,
                                              Communicator& world, device::Watchdog::Settings settings,
                                              bool threads = false);

class NcclCommunicator final : public Communicator {
 public:
  // `host` talks to the same ranks; it is owned where it was made for this communicator.
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
  void barrier() override;  // of the ranks' threads; streams go their own way
  // The sides' threads meet on the host first: so both know that they pass the same.
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
  // Through the window, where it has all that the call reads and writes.
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
