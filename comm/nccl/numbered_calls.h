// Calls that some ranks make together, as the watchdog sees them. Every call is numbered and remembered. The
// stream itself writes into a word of host memory when a call begins and when it is done; this also works for
// a call that was captured in a CUDA graph and is replayed.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "comm/nccl/session.h"

namespace recollect::nccl {

class NumberedCalls : public device::Watched {
 public:
  // `ranks` are world ranks; `key` is unique to these calls.
  NumberedCalls(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks);

  // Called before and after a call is enqueued. begin() returns the state during the call.
  uint32_t begin(CollectiveCall call, void* stream);
  void end(uint32_t state, void* stream);
  uint64_t next() const { return sequence_ + 1; }  // the number of the next call

  uint64_t key() const override { return key_; }
  const std::vector<int>& ranks() const override { return ranks_; }
  uint32_t state() const override;
  bool replays() const override;
  std::string describe(uint32_t state) const override;
  std::string asynchronous_error() override;

 protected:
  Session& session_;
  Handle& handle_;

 private:
  const uint64_t key_;
  const std::vector<int> ranks_;
  uint32_t* const word_;
  uint64_t sequence_ = 0;

  mutable std::mutex mutex_;              // guards the following, which the watchdog reads
  std::vector<CollectiveCall> latest_;    // call k is at index k modulo the size
  std::vector<CollectiveCall> captured_;  // kept forever, because they may be replayed
};

}  // namespace recollect::nccl
