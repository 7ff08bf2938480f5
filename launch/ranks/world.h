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

// OpenMP threads of a rank that shares its node with others: device.threads, or an equal share of the cores
// that this process may use. Kernels size their workspaces by it, so whoever predicts a run's memory must ask
// the same question.
int threads_per_rank(const Config& config, int ranks_on_node);

// Ranks that share this node: those that the launcher counts, or all of a run of so many.
int ranks_of_node(int ranks);

// Whether this rank's share of the cores has one for each of its threads and one more: then what side streams
// do takes nothing from kernels. `ranks`: of the run, if no launcher counts those of the node; they divide the
// cores unless agree_on_threads() has found out more.
bool has_spare_cores(const Config& config, int ranks);

// The same of a node with that many ranks, whoever starts them.
bool has_spare_cores_for(const Config& config, int ranks_on_node);

// Collective. device.cores: this rank's share of the cores that its process may use, beside the ranks that may
// use them too. Gives every rank the threads of the one that has fewest: with more cores they would have other
// workspaces.
void agree_on_threads(Config& config, Communicator& world);

// Collective. device.spare_cores: whether every rank has them.
void agree_on_spare_cores(Config& config, Communicator& world);

}  // namespace recollect
