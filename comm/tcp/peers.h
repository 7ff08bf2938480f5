// One rank's links to the other ranks of its world, shared by all of its communicators: a door for new
// connections, and one control connection to every other rank. The control connections carry only three
// messages: good-bye, why a rank stopped, and for whom a rank has waited long. A separate thread serves them,
// so that a failure also reaches ranks that are busy with other ranks, or with none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/tcp/door.h"
#include "comm/wait_posts.h"
#include "engine/core/error.h"

namespace recollect::tcp {

class Peers {
 public:
  // `places`: the addresses of all ranks' doors. `listener`: this rank's door. The secret is the same for
  // all. Nothing is connected yet.
  Peers(int rank, std::vector<Address> places, Socket listener, std::string secret,
        std::chrono::milliseconds timeout);
  // Sends good-bye to the others, or why this rank stops.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Collective over all ranks, called once: makes the control connections.
  void watch_each_other(std::chrono::milliseconds timeout);
  // Collective over `members`, which are world ranks in the group's order. Returns a socket to each of them,
  // with none for this rank. `group` is a number unique to them. Throws Error kPeerLost, naming the ranks
  // that did not come in time.
  std::vector<Socket> connect(uint64_t group, const std::vector<int>& members,
                              std::chrono::milliseconds timeout);

  // Makes every wait fail, in this process and in the others. Only the first reason is kept. Does not wait.
  void stop(const std::string& reason) noexcept;
  // If this rank stops later, the cause is that ranks disagree, and the others report it as such.
  void note_disagreement() noexcept { disagrees_ = true; }
  bool is_stopped() const { return stopped_; }
  // This descriptor becomes readable when the process has stopped.
  const Socket& stop_event() const { return stop_signal_.file(); }
  std::string stop_reason() const;
  ExitCode stop_code() const;  // kRanksDisagree or kPeerLost
  void tell(const WaitPost& post) noexcept;
  std::shared_ptr<WaitPosts> posts() const { return posts_; }
  // Returns why a connection to that rank has ended. Waits a moment for news on the control connection.
  std::string why_lost(int rank);

 private:
  enum class Presence { kHere, kLeft, kLost };
  struct Control {
    Socket socket;
    std::string heard;
    Presence presence = Presence::kHere;
  };
  // A rank's last message about itself.
  struct Parting {
    Presence presence = Presence::kHere;
    std::string reason = {};  // set if it stopped
    ExitCode code = ExitCode::kPeerLost;
  };

  void attend();
  void attend_once();
  void hear(int rank, Control& control);
  // Takes one message from the front of the received bytes. Returns false if there is no complete one.
  bool take_message(int rank, Control& control, Parting& parting);
  std::string judge(const std::string& identity) const;
  void let_in(Socket socket, const std::string& identity);
  Socket call(uint64_t group, int rank, std::chrono::milliseconds timeout, Clock::time_point deadline);
  std::vector<int> collect(uint64_t group, const std::vector<int>& members, Clock::time_point deadline,
                           std::vector<Socket>& sockets);
  [[noreturn]] void give_up(const std::string& reason);
  void note_stop(const std::string& reason, ExitCode code) noexcept;
  void tell_of_stop() noexcept;
  void tell_all(const std::string& message) noexcept;

  const int rank_;
  const std::vector<Address> places_;
  const std::string secret_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<WaitPosts> posts_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable news_;
  std::vector<Control> controls_;  // by rank; sockets stay open until the end
  std::map<std::pair<uint64_t, int>, Socket> arrived_;
  std::string reason_;
  ExitCode code_ = ExitCode::kPeerLost;

  std::atomic<bool> stopped_ = false, quitting_ = false, disagrees_ = false;
  Signal stop_signal_, wake_;
  std::vector<pollfd> files_;  // used by the thread only
  Door door_;                  // used by the thread only
  std::thread thread_;         // last: it uses all the other members
};

}  // namespace recollect::tcp
