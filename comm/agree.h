// What must be the same on all ranks is compared as texts by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "comm/communicator.h"
#include "engine/core/error.h"

namespace recollect {

// An Error that all ranks of a group have, in the same words. One of them tells it.
class SharedError : public Error {
 public:
  SharedError(ExitCode code, const std::string& what, const std::string& hint, bool told_by_another)
      : Error(code, what, hint), told_by_another_(told_by_another) {}

  bool told_by_another() const { return told_by_another_; }

 private:
  bool told_by_another_;
};

// Collective. Error kRanksDisagree on every rank, which the first one tells, where any text differs on any rank, naming the texts, what
// they say and the ranks that have them; `what` names them all in the message ("configurations").
void check_texts_agree(const std::map<std::string, std::string>& texts, const std::string& what,
                       const std::string& hint, Communicator& communicator);

// Collective. Does what may end in an Error, and involves no other rank. Where it does so on any rank it does on all: with
// that of the first such rank, which tells it.
void fail_together(Communicator& communicator, const std::function<void()>& act);

// Collective. A text that rank `root` knows, on all ranks.
std::string broadcast_text(std::string text, int root, Communicator& communicator);

}  // namespace recollect
