// From the environment and the configuration to the ranks of this process. A process that its launcher counts
// among several never trains alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi.h"
#include "launch/config/config.h"

namespace recollect {

// Runs `body` once for every rank of this process, each with its communicator over the whole world; several
// ranks are threads. Returns when all are done. The first Error of any rank stops the others and is thrown
// here. Error kConfiguration where launcher and configuration contradict each other.
//
// MPI is started in `mpi` if it is needed; it must stay until the process has said its last word, because a
// rank that fails ends the others through it.
void run_ranks(const Config& config, std::unique_ptr<MpiEnvironment>& mpi,
               const std::function<void(Communicator&)>& body);

// How the ranks of a run would talk to each other: as the configuration says. Where it leaves that to whoever
// starts them: as they do under mpirun, on one node without MPI, and on several without MPI.
std::vector<CommunicatorKind> expected_communicators(const Config& config, int ranks);

// OpenMP threads of a rank that shares its node with others: device.threads, or an equal share of the cores.
// Kernels size their workspaces by it, so whoever predicts a run's memory must ask the same question.
int threads_per_rank(const Config& config, int ranks_on_node);

// Whether this rank's node has a core for each thread that computes there and one more for every rank: then
// what side streams do takes nothing from kernels. `ranks`: of the run, if no launcher counts those of the
// node.
bool has_spare_cores(const Config& config, int ranks);

// The same of a node with that many ranks, whoever starts them.
bool has_spare_cores_for(const Config& config, int ranks_on_node);

// Collective. Gives every rank the threads of the one that has fewest: nodes with more cores, or fewer ranks,
// would have other workspaces.
void agree_on_threads(Communicator& world);

// Collective. device.spare_cores: whether every rank's node has them.
void agree_on_spare_cores(Config& config, Communicator& world);

}  // namespace recollect
