// Wait messages beside the communicators of an MPI world. A rank that has waited for long tells all others
// for whom it waits, and waiting ranks listen; other ranks spend no time on it. At the end every rank
// receives what is still on its way.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/mpi/mpi_api.h"
#include "comm/wait_posts.h"

namespace recollect::mpi {

class Control {
 public:
  // Collective. `failed` is set when MPI can no longer be relied on.
  Control(MPI_Comm world, std::chrono::milliseconds timeout, std::shared_ptr<std::atomic<bool>> failed);
  // Collective, unless a communicator has failed.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  std::shared_ptr<WaitPosts> posts() const { return posts_; }
  void tell(const WaitPost& post);
  void listen();  // receives what has arrived

 private:
  struct Sent {
    WaitPost post;
    std::vector<MPI_Request> requests;
  };

  void receive_one(int from);
  void listen_locked();

  int rank_ = 0, size_ = 1;
  MPI_Comm handle_ = MPI_COMM_NULL;
  const std::shared_ptr<std::atomic<bool>> failed_;
  std::shared_ptr<WaitPosts> posts_;
  std::mutex mutex_;               // guards the following, and `handle_`
  std::list<Sent> sent_;           // not known to have arrived
  std::vector<int> told_, heard_;  // number of messages sent and received, by rank
};

}  // namespace recollect::mpi
