// From the environment and the configuration to the ranks of this process. A process that its launcher counts among
// several never trains alone.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Runs `body` once for every rank of this process, each with its communicator over the whole world; several ranks are
// threads. Returns when all are done. The first Error of any rank stops the others and is thrown here. Error
// kConfiguration where launcher and configuration contradict each other.
void run_ranks(const Config& config, const std::function<void(Communicator&)>& body);

}  // namespace recollect
