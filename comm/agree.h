// Checks that settings which must be equal on all ranks are equal, and makes a failure of one rank the
// failure of all. Settings are compared as texts, by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "comm/communicator.h"
#include "engine/core/error.h"

namespace recollect {

// An Error that every rank of a group throws with the same text. One rank prints it.
class SharedError : public Error {
 public:
  SharedError(ExitCode code, const std::string& what, const std::string& hint, bool told_by_another)
      : Error(code, what, hint), told_by_another_(told_by_another) {}

  bool told_by_another() const { return told_by_another_; }

 private:
  bool told_by_another_;
};

// Collective. If any text differs between ranks, every rank throws Error kRanksDisagree, and rank 0 prints
// it. The message names the texts that differ, their values and the ranks that have them; `what` names all
// texts together ("configurations").
void check_texts_agree(const std::map<std::string, std::string>& texts, const std::string& what,
                       const std::string& hint, Communicator& communicator);

// Collective. Runs `act`, which may throw an Error and must not involve another rank. If it throws on any
// rank, all ranks throw the Error of the first such rank, which prints it.
void fail_together(Communicator& communicator, const std::function<void()>& act);

// Collective. Returns the text of rank `root` on all ranks.
std::string broadcast_text(std::string text, int root, Communicator& communicator);

}  // namespace recollect
