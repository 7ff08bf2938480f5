// The collectives with MPI messages. MPI cannot cancel pending requests: a rank that fails leaves them
// behind.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/message_communicator.h"
#include "comm/mpi/control.h"
#include "comm/mpi/mpi_api.h"

namespace recollect::mpi {

struct Settings {
  std::chrono::milliseconds timeout{};
  std::shared_ptr<std::atomic<bool>> failed;  // MPI can no longer be finalised
  std::shared_ptr<Control> control;           // of the world
};

class MpiCommunicator final : public MessageCommunicator {
 public:
  // Owns `handle` and makes MPI return its errors instead of aborting.
  MpiCommunicator(MPI_Comm handle, Settings settings);
  ~MpiCommunicator() override;

  std::string name() const override { return "mpi"; }
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;

 private:
  void begin_send(const void* data, std::size_t bytes, int to) override;
  void begin_receive(void* data, std::size_t bytes, int from) override;
  Ended wait_for_all() override;
  [[noreturn]] void fail(const std::string& what) override;
  bool has_failed() const override { return settings_.failed->load(); }
  void note_disagreement() noexcept override { settings_.failed->store(true); }
  void tell(const WaitPost& post) noexcept override;
  std::vector<int> late() const;
  using MessageCommunicator::check;
  bool progress(int& last);
  void check(int status);

  MPI_Comm handle_;
  Settings settings_;
  std::vector<MPI_Request> requests_;  // pending; at most two per rank
  std::vector<int> peers_;             // the rank that each request concerns
  std::vector<char> receives_;         // by request
  std::vector<int> finished_;          // MPI_Testsome's answer
};

}  // namespace recollect::mpi
