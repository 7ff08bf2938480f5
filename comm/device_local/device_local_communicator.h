// Collectives of rank threads that share one device. The threads meet on the host to exchange the addresses
// of their tensors; the rest is ordering between their streams, with two events per phase: no stream reads a
// tensor before its owner's stream has reached the call, and no stream continues after a call while another
// one still reads its rank's tensor. When two ranks pass a tensor, the receiver's stream copies it between
// these two events. No kernel waits for another one, so the ranks' kernels need not fit the device at the
// same time.
//
// In an all-reduce every rank sums its share of the elements, in rank order, in place in its own tensor; then
// the shares are copied to the other ranks. So the collectives need no memory of their own and give the same
// bits as the ranks on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "comm/device/device_runtime.h"

namespace recollect::device_local {

inline constexpr int kMostRanks = 64;  // one reduction takes the addresses of all of them

// Collective over rank threads of this process, which `world` must outlive. Throws Error kConfiguration for
// more than kMostRanks.
std::unique_ptr<Communicator> join_device_local_world(std::shared_ptr<device::DeviceRuntime> runtime,
                                                      Communicator& world);

// The events of one rank in one group.
struct Events {
  std::shared_ptr<device::DeviceRuntime> runtime;
  void* ready = nullptr;    // its tensors hold the inputs of the call
  void* reduced = nullptr;  // its share has been summed
  void* done = nullptr;     // it no longer reads another rank's tensor
  // By sender: this rank has copied the latest tensor from there. The owner makes an event on first use and
  // tells its address. Each sender has its own, because a later call must not hold up an earlier one.
  std::vector<void*> copied;

  Events(std::shared_ptr<device::DeviceRuntime> runtime, int ranks);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
};

class DeviceLocalCommunicator final : public Communicator {
 public:
  // Collective. `host` connects the same ranks; `owned_host` is set if it was made for this communicator.
  DeviceLocalCommunicator(std::shared_ptr<device::DeviceRuntime> runtime, std::vector<int> world_ranks,
                          Communicator& host, std::unique_ptr<Communicator> owned_host);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "device-local"; }
  std::size_t staging_bytes() const override { return owned_host_ ? owned_host_->staging_bytes() : 0; }
  bool capturable() const override { return false; }  // the threads must meet in every call
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override;
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override;
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override;
  void broadcast(const Tensor& tensor, int root, void* stream) override;
  void barrier() override;  // for the ranks' threads; it does not affect streams
  void pass(const Parcel& out, const Parcel& in, void* stream) override;
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;

 private:
  struct Visit {  // what a rank brings to a call
    CollectiveCall call;
    std::byte* data = nullptr;
  };

  struct Receipt {  // what a receiver sends back to the sender
    CollectiveCall call;
    void* copied = nullptr;
  };

  void exchange_events();
  void* copy_from(const Visit& sender, const Parcel& in, void* stream);
  void meet(CollectiveCall call, const void* data, void* stream);
  void gather_visits();
  void pass(void* Events::*event, void* stream);
  void await(void* Events::*event, void* stream);
  template <typename Function>
  void with_peers(Function function);

  std::shared_ptr<device::DeviceRuntime> runtime_;
  Communicator& host_;
  std::unique_ptr<Communicator> owned_host_;
  const int rank_, size_;
  const std::vector<int> world_ranks_;
  std::vector<std::shared_ptr<Events>> events_;  // by rank; they outlive the ranks that made them
  std::vector<Visit> visits_;
  std::vector<CollectiveCall> calls_;
  std::vector<const void*> parts_;
  CollectiveCall call_;                    // the current one
  uint64_t sequence_ = 0;                  // of the latest collective
  std::vector<uint64_t> sent_, received_;  // number of tensors so far, by peer
};

}  // namespace recollect::device_local
