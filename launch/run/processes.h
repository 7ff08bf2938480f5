// Processes that end when the launcher does. Each rank leads a session, and so a group, of its own: what it
// starts can be reached with it, and nothing else.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <vector>

#include "launch/run/find_program.h"

namespace recollect::launcher {

// Makes this process the parent of all orphans among its descendants, so that it can find and end them.
void adopt_orphans();

// Starts the program with these streams; the signals `blocked` stay blocked in it. The kernel kills it when
// the launcher dies, and it tells the guard, which kills what it has started, of itself. Returns when it runs. Error kConfiguration where it cannot be executed, kHostMemory
// where the machine has no room for it.
pid_t start_process(const Program& program, const Words& environment, int output, int errors,
                    const sigset_t& blocked, int guard);

// This process's children, by /proc; none where that shows another world of processes.
std::vector<pid_t> children();

// Whether somebody has stopped it (SIGSTOP), as /proc says.
bool is_stopped(pid_t process);

// Kills all children but those of `spared`, then those that become children by that, and reaps them. False
// where some outlived the time given to them.
bool end_children(const std::vector<pid_t>& spared);

}  // namespace recollect::launcher
