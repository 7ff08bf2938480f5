// The ranks of a host communicator, talking about the memory of their devices: every collective is enqueued
// on the stream that it is given (a cudaStream_t) and returns at once. Made of what the ranks are: the local
// kind for rank threads that share one GPU, NCCL for ranks that have a GPU or a process of their own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/local.h"

namespace recollect {

struct DeviceWorldOptions {
  int device = 0;  // of this rank, by the number that this process knows it by; see rank_device()
  std::chrono::milliseconds timeout = kDefaultPeerTimeout;
  // Told on rank 0 alone: one line on what was chosen, and which variables of the environment were set for
  // it.
  std::function<void(const std::string&)> tell;
};

// Collective over `world`, which must outlive the result and everything split from it, and is used by it when
// groups are made and when a rank fails. Needs a current driver and, where ranks have processes or GPUs of
// their own, the NCCL library: Error kConfiguration names what is missing, and so it is for ranks whose
// places fit no kind. A failure of any rank is thrown on every rank, by the next call or by check(); a rank
// that does not get to either is ended with the status kPeerLost some seconds later. A rank that stops on an
// error of its own should abort() before it tears down what takes long.
std::unique_ptr<Communicator> make_device_world(Communicator& world, const DeviceWorldOptions& options);

// Which device a rank uses, of those that its process sees. More ranks than devices share them in turn. Error
// kConfiguration where there is none.
int rank_device(int local_rank, int device_count);

}  // namespace recollect
