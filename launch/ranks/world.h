// Starts the ranks of this process, as the environment and the configuration describe them. A process that
// its launcher counts as one of several never trains alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi.h"
#include "launch/config/config.h"

namespace recollect {

// Runs `body` once for every rank of this process, each with a communicator over the whole world. Several
// ranks are threads. Returns when all have finished. The first Error of any rank stops the others and is
// thrown here. Throws kConfiguration if launcher and configuration contradict each other.
//
// Starts MPI in `mpi` if it is needed. `mpi` must live until the process has printed its last message,
// because a rank that fails ends the others through it.
void run_ranks(const Config& config, std::unique_ptr<MpiEnvironment>& mpi,
               const std::function<void(Communicator&)>& body);

// The kinds of communicator that the ranks of a run may use. This is the kind in the configuration. If that
// is `auto`, these are the kinds under mpirun, on one node without MPI, and on several nodes without MPI.
std::vector<CommunicatorKind> expected_communicators(const Config& config, int ranks);

// The number of OpenMP threads of a rank on a node with `ranks_on_node` ranks: device.threads, or an equal
// share of the cores that this process may use. Workspaces depend on this number, so a prediction of memory
// must use this function too.
int threads_per_rank(const Config& config, int ranks_on_node);

// The number of ranks on this node by the launcher's count, or `ranks`, the size of the run, without one.
int ranks_of_node(int ranks);

// Whether this rank's share of the cores has one core more than the rank has threads, so that side streams
// take no core from kernels. `ranks` is the size of the run, and is used if no launcher counts the ranks of
// the node. They share the cores equally, unless agree_on_threads() has computed exact shares.
bool has_spare_cores(const Config& config, int ranks);

// The same for a node with `ranks_on_node` ranks, started by any launcher.
bool has_spare_cores_for(const Config& config, int ranks_on_node);

// Collective. Sets device.cores to this rank's share of the cores that its process may use. Gives every rank
// as many threads as the rank with the fewest, because workspaces depend on the number of threads.
void agree_on_threads(Config& config, Communicator& world);

// Collective. Sets device.spare_cores: whether every rank has a spare core.
void agree_on_spare_cores(Config& config, Communicator& world);

}  // namespace recollect
