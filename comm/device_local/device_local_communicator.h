// The collectives of rank threads that share one device. The ranks' threads meet on the host to tell each
// other where their tensors are; everything else is order between their streams. Two events per phase say it
// all: nobody reads a tensor before its owner's stream has come to the call, and no stream goes on from a
// call while another one still reads its rank's tensor. Of two ranks that pass a tensor, the receiver's
// stream copies it, between those two events. No kernel ever waits for another, so the ranks need not fit the
// device at once.
//
// Every rank sums its share of the elements, in rank order, where that share lies in its own tensor; then the
// shares are copied. So it needs no memory of its own, and gives the bits of the ranks on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "comm/device/device_runtime.h"

namespace recollect::device_local {

inline constexpr int kMostRanks = 64;  // whose addresses a reduction takes at once

// Collective over rank threads of this process, which `world` must outlive. Error kConfiguration for more
// ranks.
std::unique_ptr<Communicator> join_device_local_world(std::shared_ptr<device::DeviceRuntime> runtime,
                                                      Communicator& world);

// The events of one rank in one group.
struct Events {
  std::shared_ptr<device::DeviceRuntime> runtime;
  void* ready = nullptr;    // its tensors hold what the call is about
  void* reduced = nullptr;  // its share is summed
  void* done = nullptr;     // it reads no other rank's tensor any more
  // By rank: it has copied the latest tensor that came from there. Made when needed, by their owner alone;
  // others are told the address. One for each sender, because what follows may not hold up an earlier one.
  std::vector<void*> copied;

  Events(std::shared_ptr<device::DeviceRuntime> runtime, int ranks);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
};

class DeviceLocalCommunicator final : public Communicator {
 public:
  // Collective. `host` talks to the same ranks; it is owned where it was made for this communicator.
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
  void barrier() override;  // of the ranks' threads; streams go their own way
  void pass(const Parcel& out, const Parcel& in, void* stream) override;
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;

 private:
  struct Visit {  // what a rank brings to a call
    CollectiveCall call;
    std::byte* data = nullptr;
  };

  struct Receipt {  // what a receiver tells the sender
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
  std::vector<std::shared_ptr<Events>> events_;  // of all ranks; outlive the ranks that made them
  std::vector<Visit> visits_;
  std::vector<CollectiveCall> calls_;
  std::vector<const void*> parts_;
  CollectiveCall call_;                    // the one under way
  uint64_t sequence_ = 0;                  // of the latest collective
  std::vector<uint64_t> sent_, received_;  // tensors so far, by peer
};

}  // namespace recollect::device_local
