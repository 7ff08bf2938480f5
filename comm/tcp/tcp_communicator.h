// The collectives' messages over one socket per pair of ranks. Nothing blocks: sends and receives to all
// ranks proceed concurrently, so large messages can never deadlock two ranks, whatever their order.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "comm/message_communicator.h"
#include "comm/tcp/peers.h"

namespace recollect::tcp {

class TcpCommunicator final : public MessageCommunicator {
 public:
  // `members` are world ranks in the group's order; `sockets` lead to them.
  TcpCommunicator(std::shared_ptr<Peers> peers, const std::vector<int>& members, std::vector<Socket> sockets);

  std::string name() const override { return "tcp"; }
  std::unique_ptr<Communicator> split(int color) override;
  void abort(const std::string& why) noexcept override;
  std::optional<std::string> stop_reason() const override;

 private:
  struct Lane {
    Socket socket;
    std::array<iovec, 2> out{}, in{};  // what remains of the current message, and the next one
    bool sends() const { return out[0].iov_len > 0; }
    bool receives() const { return in[0].iov_len > 0; }
    bool is_busy() const { return sends() || receives(); }
    void next() { out = {out[1]}, in = {in[1]}; }
  };

  void begin_send(const void* data, std::size_t bytes, int to) override;
  void begin_receive(void* data, std::size_t bytes, int from) override;
  Ended wait_for_all() override;
  bool joins_messages() const override { return true; }
  [[noreturn]] void fail(const std::string& what) override;
  [[noreturn]] void fail_as_stopped();
  bool has_failed() const override { return peers_->is_stopped(); }
  void note_disagreement() noexcept override;
  void tell(const WaitPost& post) noexcept override { peers_->tell(post); }
  std::size_t move(int rank);
  bool wait_for_some(Clock::time_point until);
  std::vector<int> late() const;

  std::shared_ptr<Peers> peers_;
  std::vector<Lane> lanes_;    // by rank in the group
  std::vector<pollfd> files_;  // the lanes, then the stop event
};

}  // namespace recollect::tcp
