// Who this process is among the processes of its run, as its launcher says in the environment. Launchers that
// contradict each other are an Error: a rank that believes the wrong one would train alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace recollect {

inline constexpr int kMostRanks = 1 << 20;  // of a world: products of a few such counts fit 64 bits

struct RankEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this node
  int local_size = 1;
  std::string source;   // "RECOLLECT", "torchrun", "Open MPI", "Slurm" or "PMI"
  std::string run_id;   // the same for all ranks of the run; empty where the launcher gives none
  bool by_mpi = false;  // MPI's own way of starting ranks was used: MPI will find the same world
};

// The value of an environment variable; null where it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// The first of RECOLLECT_RANK/WORLD_SIZE/LOCAL_RANK/LOCAL_SIZE, torchrun's RANK/WORLD_SIZE/LOCAL_RANK/
// LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_*, SLURM_* (inside a job step only) and PMI_*; nothing where no launcher
// speaks. Where it says nothing of nodes, the next one that does is believed; where none does, all ranks are
// on this node.
//
// Error kConfiguration: a variable that is no number or more than kMostRanks, a rank outside its world, half
// of a pair, and launchers that disagree, listing who said what. A Slurm step around another launcher may
// count less than that launcher: mpirun and torchrun start their ranks from one step task per node.
std::optional<RankEnvironment> discover_ranks(const EnvironmentLookup& lookup);
std::optional<RankEnvironment> discover_ranks();  // from this process's environment

}  // namespace recollect
