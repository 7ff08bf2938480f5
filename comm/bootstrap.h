// Finds out which rank this process is from the variables that its launcher sets. Launchers that contradict
// each other are an Error: a rank that believed the wrong one would train alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace recollect {

inline constexpr int kMostRanks = 1 << 20;  // the largest world: products of a few such counts fit 64 bits

struct RankEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this node
  int local_size = 1;
  std::string source;   // the launcher: "RECOLLECT", "torchrun", "Open MPI", "Slurm" or "PMI"
  std::string run_id;   // the same for all ranks of the run; empty if the launcher gives none
  bool by_mpi = false;  // MPI's own way of starting ranks was used, so MPI will find the same world
};

// Returns the value of an environment variable; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Reads the rank from the first of these launchers that is set:
// RECOLLECT_RANK/WORLD_SIZE/LOCAL_RANK/LOCAL_SIZE, torchrun's RANK/WORLD_SIZE/LOCAL_RANK/LOCAL_WORLD_SIZE,
// OMPI_COMM_WORLD_*, SLURM_* (only inside a job step) and PMI_*. Returns nothing if none is set. If that
// launcher does not set the local rank and size, they come from the next one that does; if none does, all
// ranks are assumed to be on this node.
//
// Throws Error kConfiguration for a variable that is not a number or exceeds kMostRanks, for a rank outside
// its world, if half of a pair is missing, and for launchers that disagree, listing what each one says. A
// Slurm step may have fewer tasks than another launcher has ranks: mpirun and torchrun start their ranks from
// one step task per node.
std::optional<RankEnvironment> discover_ranks(const EnvironmentLookup& lookup);
std::optional<RankEnvironment> discover_ranks();  // from this process's environment

}  // namespace recollect
