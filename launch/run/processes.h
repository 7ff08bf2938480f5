// Starts and ends the processes of the ranks. They end when the launcher ends. Each rank leads its own
// session and process group, so that a signal to the group reaches the rank and its own processes, and no
// others.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <vector>

#include "launch/run/find_program.h"

namespace recollect::launcher {

// Makes this process the parent of all orphans among its descendants, so that it can find and end them.
void adopt_orphans();

// Starts the program with these streams; the signals in `blocked` stay blocked in it. If the launcher dies,
// the kernel kills the process. The process also registers with the guard, which kills the processes that it
// started. Returns when the program runs. Throws kConfiguration if it cannot be executed, kHostMemory if the
// machine has no room for it.
pid_t start_process(const Program& program, const Words& environment, int output, int errors,
                    const sigset_t& blocked, int guard);

// The children of this process, read from /proc; none if /proc belongs to another PID namespace.
std::vector<pid_t> children();

// Whether the process is stopped (SIGSTOP), read from /proc.
bool is_stopped(pid_t process);

// Kills all children except `spared`, then the orphans that become children by that, and reaps them. Returns
// false if some are still there after kTimeToDie.
bool end_children(const std::vector<pid_t>& spared);

}  // namespace recollect::launcher
