// The ranks of a host communicator, with collectives on the memory of their devices. Every collective is
// enqueued on the stream that it is given (a cudaStream_t) and returns at once. Rank threads that share one
// GPU use the device-local kind; ranks that have their own GPU or their own process use NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/local.h"

namespace recollect {

struct DeviceWorldOptions {
  int device = 0;  // of this rank, as this process numbers its devices; see rank_device()
  std::chrono::milliseconds timeout = kDefaultPeerTimeout;
  // Called on rank 0 only, with one line that says what was chosen and which environment variables were set
  // for it.
  std::function<void(const std::string&)> tell;
};

// Collective over `world`, which must outlive the result and everything split from it; they use it when
// groups are made and when a rank fails. Needs a current driver and, unless all ranks are threads on one GPU,
// the NCCL library. Throws Error kConfiguration, naming what is missing, and also if no kind fits the places
// of the ranks. A failure of any rank is thrown on every rank, by the next call or by check(). A rank that
// reaches neither is ended some seconds later with the exit status kPeerLost. A rank that stops on its own
// error should call abort() before any slow clean-up.
std::unique_ptr<Communicator> make_device_world(Communicator& world, const DeviceWorldOptions& options);

// Returns the device that a rank uses, among those that its process sees. If there are more ranks than
// devices, the ranks share them in turn. Throws Error kConfiguration if there is none.
int rank_device(int local_rank, int device_count);

}  // namespace recollect
