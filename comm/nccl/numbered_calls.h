// The calls that some ranks make together, as the watchdog sees them: every call is numbered and remembered,
// and the stream itself notes when it begins and when it is done, in a word of host memory. That also works
// when the call was recorded in a CUDA graph and is replayed.
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
  // `ranks` are those of the world; `key` is theirs alone.
  NumberedCalls(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks);

  // Before and after a call is enqueued. begin() returns the state while it is under way.
  uint32_t begin(CollectiveCall call, void* stream);
  void end(uint32_t state, void* stream);
  uint64_t next() const { return sequence_ + 1; }  // the number of the call that comes next

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

  mutable std::mutex mutex_;              // of what follows, which the watchdog reads
  std::vector<CollectiveCall> latest_;    // call k at k modulo its size
  std::vector<CollectiveCall> captured_;  // never forgotten: they may come again
};

}  // namespace recollect::nccl
