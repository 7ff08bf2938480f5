// The contents of a store: values under keys, and the barriers in progress. There are no sockets and no clock
// here: the server asks again whenever something has changed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/store/protocol.h"

namespace recollect::store {

using Value = std::shared_ptr<const std::string>;

struct Reply {
  Status status = Status::kOk;
  Value value;  // or a text; null: empty
};

class Contents {
 public:
  explicit Contents(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  Status set(const std::string& key, std::string value);
  Value get(const std::string& key) const;           // null if it does not exist
  Reply add(const std::string& key, int64_t delta);  // the new value, as decimal text
  void erase(const std::string& key);
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  // A rank arrives at a barrier. `turn` counts how often the barrier has been passed before, because a name
  // can be used again. The reply has an error status if the rank cannot take part.
  struct Arrival {
    Reply reply;
    uint64_t turn = 0;
  };
  Arrival arrive(const std::string& name, int64_t size, int rank, uint64_t here_since);
  // Returns the reply for a rank that has arrived; nothing while others are missing.
  std::optional<Reply> barrier_reply(const std::string& name, uint64_t turn) const;
  // One rank's time is up, and so the barrier fails for all: every rank that has come, or comes later, is
  // told which ranks are missing.
  void give_up_barrier(const std::string& name);
  // A process of that rank has connected. Returns the value to pass to arrive(): ranks that went away before
  // do not count as lost for this process, as after a restart.
  uint64_t rank_is_here(int rank);
  // The connection of that rank has broken, which ends barriers that wait for it.
  void rank_has_gone(int rank);

  std::size_t bytes() const { return bytes_; }

 private:
  struct Barrier {
    int64_t size = 0;
    std::set<int> waiting;
    uint64_t turn = 0;
    std::optional<Reply> broken;
  };

  bool has_room(std::size_t more) const { return bytes_ + more <= most_bytes_; }
  std::vector<int> missing_from(const Barrier& barrier) const;
  void break_if_gone(Barrier& barrier, uint64_t since) const;

  std::size_t most_bytes_, bytes_ = 0;  // of keys, values and bookkeeping
  std::map<std::string, Value> values_;
  std::map<std::string, Barrier> barriers_;
  std::map<int, uint64_t> gone_;  // by rank: when it went, counted in departures
  uint64_t departures_ = 0;
};

}  // namespace recollect::store
