#include "comm/mpi/control.h"

namespace recollect::mpi {
namespace {

constexpr int kWaitTag = 2;

}  // namespace

Control::Control(MPI_Comm world, std::chrono::milliseconds timeout, std::shared_ptr<std::atomic<bool>> failed)
    : failed_(std::move(failed)) {
  MPI_Comm_dup(world, &handle_);
  MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(handle_, &rank_);
  MPI_Comm_size(handle_, &size_);
  posts_ = std::make_shared<WaitPosts>(size_, timeout);
  told_.resize(size_);
  heard_.resize(size_);
}

// MPI requires that every message is received before it is finalised.
Control::~Control() {
  if (failed_->load()) return;
  std::vector<int> announced(size_);
  MPI_Alltoall(told_.data(), 1, MPI_INT, announced.data(), 1, MPI_INT, handle_);
  for (int r = 0; r < size_; ++r)
    while (heard_[r] < announced[r]) receive_one(r);
  for (Sent& sent : sent_)
    MPI_Waitall(static_cast<int>(sent.requests.size()), sent.requests.data(), MPI_STATUSES_IGNORE);
  MPI_Comm_free(&handle_);
}

void Control::tell(const WaitPost& post) {
  const std::lock_guard lock(mutex_);
  Sent& sent = sent_.emplace_back(Sent{post, {}});
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    if (MPI_Isend(&sent.post, sizeof sent.post, MPI_BYTE, r, kWaitTag, handle_,
                  &sent.requests.emplace_back()) == MPI_SUCCESS)
      ++told_[r];
    else
      sent.requests.pop_back();
  }
}

void Control::receive_one(int from) {
  WaitPost post;
  if (MPI_Recv(&post, sizeof post, MPI_BYTE, from, kWaitTag, handle_, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
      post.rank == from)
    posts_->note(post);
  ++heard_[from];
}

void Control::listen() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) listen_locked();
}

void Control::listen_locked() {
  int some = 1;
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, kWaitTag, handle_, &some, &status) == MPI_SUCCESS && some != 0)
    receive_one(status.MPI_SOURCE);
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  });
}

}  // namespace recollect::mpi
