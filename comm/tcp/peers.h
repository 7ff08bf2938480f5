// One rank's ties to the other ranks of its world, shared by all its communicators: a door for new
// connections, and to every other rank one control connection on which nothing is said but good-bye, why
// somebody stopped, and for whom somebody has waited for long. A thread of its own attends to them, so that a
// failure reaches also those ranks that are busy with others, or with nobody.
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
  // `places` are the addresses of all ranks' doors, `listener` this rank's; the secret is the same for all.
  // Not connected yet.
  Peers(int rank, std::vector<Address> places, Socket listener, std::string secret,
        std::chrono::milliseconds timeout);
  // Tells the others good-bye, or why it stops.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Collective over all ranks, once: the control connections.
  void watch_each_other(std::chrono::milliseconds timeout);
  // Collective over `members`, world ranks in the group's order: a socket to each of them, none for this
  // rank. `group` is theirs alone. Error kPeerLost names who did not come in time.
  std::vector<Socket> connect(uint64_t group, const std::vector<int>& members,
                              std::chrono::milliseconds timeout);

  // Makes every wait in this process fail, and in the others too. The first reason counts. Waits for nobody.
  void stop(const std::string& reason) noexcept;
  // What this rank stops for from now on, if it does, is that ranks disagree: so it is for who hears of it.
  void note_disagreement() noexcept { disagrees_ = true; }
  bool is_stopped() const { return stopped_; }
  // Readable from the moment on when it has stopped.
  const Socket& stop_event() const { return stop_signal_.file(); }
  std::string stop_reason() const;
  ExitCode stop_code() const;  // kRanksDisagree or kPeerLost
  void tell(const WaitPost& post) noexcept;
  std::shared_ptr<WaitPosts> posts() const { return posts_; }
  // A connection to that rank has ended: why. Gives the news on the control connection a moment to come.
  std::string why_lost(int rank);

 private:
  enum class Presence { kHere, kLeft, kLost };
  struct Control {
    Socket socket;
    std::string heard;
    Presence presence = Presence::kHere;
  };
  // What a rank has said of itself at last.
  struct Parting {
    Presence presence = Presence::kHere;
    std::string reason = {};  // of a stop
    ExitCode code = ExitCode::kPeerLost;
  };

  void attend();
  void attend_once();
  void hear(int rank, Control& control);
  // Takes one message from the front of what was heard; false where there is no whole one.
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
  std::vector<pollfd> files_;  // the thread's
  Door door_;                  // the thread's
  std::thread thread_;         // last: it uses all the others
};

}  // namespace recollect::tcp
