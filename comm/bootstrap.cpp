#include "comm/bootstrap.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/core/error.h"

namespace recollect {
namespace {

constexpr const char* kHint = "start every rank through one launcher and unset the variables of the others";

// Reads variables, remembering nothing: the environment is the state.
class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value ? value : "";
  }
  bool has(const char* name) const { return !text(name).empty(); }

  std::optional<int> number(const char* name) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < 0)
      throw Error(ExitCode::kConfiguration, std::string(name) + " is '" + value + "', not a count", kHint);
    return result;
  }

  // The first that is set.
  std::optional<int> first_number(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto value = number(name)) return value;
    return std::nullopt;
  }

 private:
  const EnvironmentLookup& lookup_;
};

struct Names {
  const char* source;
  const char* rank;
  std::initializer_list<const char*> size;
  std::initializer_list<const char*> local_rank;
  std::initializer_list<const char*> local_size;
};

// Nothing when the launcher is silent.
std::optional<RankEnvironment> read(const Reader& env, const Names& names) {
  const auto rank = env.number(names.rank);
  const auto size = env.first_number(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    const char* there = rank ? names.rank : *names.size.begin();
    const char* missing = rank ? *names.size.begin() : names.rank;
    throw Error(ExitCode::kConfiguration,
                std::string(names.source) + ": " + there + " is set, " + missing + " is not", kHint);
  }
  const int local_rank = env.first_number(names.local_rank).value_or(*rank);
  const int local_size = env.first_number(names.local_size).value_or(*size);
  if (*rank >= *size || local_rank >= local_size || local_size > *size)
    throw Error(ExitCode::kConfiguration,
                std::string(names.source) + ": rank " + std::to_string(*rank) + " of " +
                    std::to_string(*size) + ", on its node " + std::to_string(local_rank) + " of " +
                    std::to_string(local_size) + ", cannot be",
                kHint);
  return RankEnvironment{*rank, *size, local_rank, local_size, names.source, {}};
}

// Slurm's list of tasks per node, "2(x3),1", at the given node; nothing when it is malformed or too short.
std::optional<int> tasks_on_node(const std::string& list, int node) {
  const char* at = list.c_str();
  while (*at) {
    char* end = nullptr;
    const long tasks = std::strtol(at, &end, 10);
    if (end == at || tasks < 1) return std::nullopt;
    long nodes = 1;
    if (std::strncmp(end, "(x", 2) == 0) {
      nodes = std::strtol(end + 2, &end, 10);
      if (*end == ')') ++end;
    }
    if (node < nodes) return static_cast<int>(tasks);
    node -= static_cast<int>(nodes);
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') return std::nullopt;
  }
  return std::nullopt;
}

std::optional<RankEnvironment> read_slurm(const Reader& env) {
  if (!env.has("SLURM_STEP_ID") || !env.has("SLURM_PROCID")) return std::nullopt;
  auto found = read(env, {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {}, {}});
  const auto local_rank = env.number("SLURM_LOCALID");
  const auto local_size =
      tasks_on_node(env.text("SLURM_STEP_TASKS_PER_NODE"), env.number("SLURM_NODEID").value_or(0));
  if (found && local_rank && local_size && *local_rank < *local_size) {
    found->local_rank = *local_rank;
    found->local_size = *local_size;
  }
  return found;
}

std::string find_run_id(const Reader& env, const std::string& source) {
  if (env.has("RECOLLECT_RUN_ID")) return env.text("RECOLLECT_RUN_ID");
  // The launcher that said who we are comes first: an outer one may be the same for several runs.
  const std::string torchrun = env.has("TORCHELASTIC_RUN_ID")
                                   ? env.text("TORCHELASTIC_RUN_ID") + ":" + env.text("MASTER_PORT")
                                   : std::string();
  if (source == "torchrun" && !torchrun.empty()) return torchrun;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"})
    if (source == "Open MPI" && env.has(name)) return env.text(name);
  if (source == "Slurm") return env.text("SLURM_JOB_ID") + "." + env.text("SLURM_STEP_ID");
  if (source == "PMI") return env.text("PMI_JOBID");
  return torchrun;
}

[[noreturn]] void throw_contradiction(const std::vector<RankEnvironment>& said) {
  std::string text;
  for (const RankEnvironment& s : said)
    text += (text.empty() ? "" : "; ") + s.source + " says rank " + std::to_string(s.rank) + " of " +
            std::to_string(s.size);
  throw Error(ExitCode::kConfiguration, "the launchers contradict each other: " + text, kHint);
}

}  // namespace

std::optional<RankEnvironment> discover_ranks(const EnvironmentLookup& lookup) {
  const Reader env(lookup);
  std::vector<RankEnvironment> said;
  const auto add = [&](std::optional<RankEnvironment> found) {
    if (found) said.push_back(std::move(*found));
  };
  add(read(env, {"RECOLLECT",
                 "RECOLLECT_RANK",
                 {"RECOLLECT_WORLD_SIZE"},
                 {"RECOLLECT_LOCAL_RANK"},
                 {"RECOLLECT_LOCAL_SIZE"}}));
  add(read(env, {"torchrun", "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}}));
  add(read(env, {"Open MPI",
                 "OMPI_COMM_WORLD_RANK",
                 {"OMPI_COMM_WORLD_SIZE"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE"}}));
  const auto slurm = read_slurm(env);
  add(slurm);
  add(read(env, {"PMI",
                 "PMI_RANK",
                 {"PMI_SIZE"},
                 {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                 {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}}));
  if (said.empty()) return std::nullopt;
  RankEnvironment& chosen = said.front();
  for (const RankEnvironment& other : said) {
    // A Slurm step (and the PMI it brings) may hold another launcher's daemons: one task starts many ranks.
    const bool outer = other.source == "Slurm" || (other.source == "PMI" && slurm);
    if (outer && chosen.source != "Slurm" && other.size < chosen.size) continue;
    if (other.rank != chosen.rank || other.size != chosen.size) throw_contradiction(said);
  }
  chosen.run_id = find_run_id(env, chosen.source);
  return chosen;
}

std::optional<RankEnvironment> discover_ranks() {
  return discover_ranks([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace recollect
