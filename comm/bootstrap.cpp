#include "comm/bootstrap.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace recollect {
namespace {

constexpr const char* kHint = "start every rank through one launcher and unset the variables of the others";

// Takes the digits at the start of `text`, which it removes; nothing if there are none or the number is too
// large.
std::optional<int> take_count(std::string_view& text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0 || count > kMostRanks) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return count;
}

// Removes `part` from the start of `text` if it is there.
bool take(std::string_view& text, std::string_view part) {
  const bool there = text.starts_with(part);
  if (there) text.remove_prefix(part.size());
  return there;
}

// Reads environment variables. It stores nothing: the environment is the state.
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
    std::string_view rest = value;
    const auto result = take_count(rest);
    if (!result || !rest.empty())
      throw Error(ExitCode::kConfiguration,
                  std::string(name) + " is '" + value + "', not a count up to " + std::to_string(kMostRanks),
                  kHint);
    return result;
  }

  // Returns the first one that is set.
  std::optional<int> first_number(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto value = number(name)) return value;
    return std::nullopt;
  }

 private:
  const EnvironmentLookup& lookup_;
};

struct Names {
  const char* source = nullptr;
  const char* rank = nullptr;
  std::initializer_list<const char*> size;
  std::initializer_list<const char*> local_rank;
  std::initializer_list<const char*> local_size;
};

// The statement of one launcher about this rank.
struct Statement {
  RankEnvironment who;
  bool tells_node = false;  // it gave the local rank and size; they are not just assumed

  std::string to_string() const {
    std::string text =
        who.source + " says rank " + std::to_string(who.rank) + " of " + std::to_string(who.size);
    if (tells_node)
      text +=
          " (" + std::to_string(who.local_rank) + " of " + std::to_string(who.local_size) + " on its node)";
    return text;
  }
};

void refuse_half(const char* source, const char* first, bool has_first, const char* second, bool has_second) {
  if (has_first == has_second) return;
  const std::string missing = has_first ? second : first;
  throw Error(ExitCode::kConfiguration,
              std::string(source) + ": " + (has_first ? first : second) + " is set, " + missing + " is not",
              "set " + missing + " too, or unset what another launcher has left");
}

// Returns nothing if the launcher has set no variables.
std::optional<Statement> read(const Reader& env, const Names& names) {
  const auto rank = env.number(names.rank);
  const auto size = env.first_number(names.size);
  if (!rank && !size) return std::nullopt;
  refuse_half(names.source, names.rank, rank.has_value(), *names.size.begin(), size.has_value());
  const auto local_rank = env.first_number(names.local_rank), local_size = env.first_number(names.local_size);
  if (local_rank || local_size)
    refuse_half(names.source, *names.local_rank.begin(), local_rank.has_value(), *names.local_size.begin(),
                local_size.has_value());
  const RankEnvironment who{.rank = *rank,
                            .size = *size,
                            .local_rank = local_rank.value_or(*rank),
                            .local_size = local_size.value_or(*size),
                            .source = names.source,
                            .run_id = {}};
  const Statement said{who, local_rank.has_value()};
  if (who.rank >= who.size || who.local_rank >= who.local_size || who.local_size > who.size)
    throw Error(ExitCode::kConfiguration, said.to_string() + ", which cannot be", kHint);
  return said;
}

// Returns the entry for a node in Slurm's list of tasks per node, such as "2(x3),1"; nothing if the list is
// malformed or too short.
std::optional<int> tasks_on_node(std::string_view list, int node) {
  while (!list.empty()) {
    const auto tasks = take_count(list);
    const auto nodes = take(list, "(x") ? take_count(list) : std::optional(0);
    if (!tasks || !nodes || *tasks < 1) return std::nullopt;
    const bool repeated = take(list, ")");
    const int count = repeated ? *nodes : 1;
    if (repeated != (*nodes > 0)) return std::nullopt;
    if (node < count) return tasks;
    node -= count;
    if (!list.empty() && !take(list, ",")) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Statement> read_slurm(const Reader& env) {
  if (!env.has("SLURM_STEP_ID") || !env.has("SLURM_PROCID")) return std::nullopt;
  auto found = read(env, {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {}, {}});
  const auto nodes = env.first_number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const std::string list = env.text("SLURM_STEP_TASKS_PER_NODE");
  if (!found || (list.empty() && nodes.value_or(1) == 1)) return found;
  const auto local_rank = env.number("SLURM_LOCALID");
  const auto local_size = tasks_on_node(list, env.number("SLURM_NODEID").value_or(0));
  if (!local_rank || !local_size || *local_rank >= *local_size || *local_size > found->who.size)
    throw Error(ExitCode::kConfiguration,
                "Slurm: task " + std::to_string(found->who.rank) + " of " + std::to_string(found->who.size) +
                    " is number '" + env.text("SLURM_LOCALID") + "' on node '" + env.text("SLURM_NODEID") +
                    "', with '" + list + "' tasks on the nodes, which cannot be",
                kHint);
  found->who.local_rank = *local_rank;
  found->who.local_size = *local_size;
  found->tells_node = true;
  return found;
}

std::string find_run_id(const Reader& env, const std::string& source) {
  if (env.has("RECOLLECT_RUN_ID")) return env.text("RECOLLECT_RUN_ID");
  // The launcher that gave the rank comes first, because an outer launcher may be the same for several runs.
  std::string torchrun = env.has("TORCHELASTIC_RUN_ID")
                             ? env.text("TORCHELASTIC_RUN_ID") + ":" + env.text("MASTER_PORT")
                             : std::string();
  if (source == "torchrun" && !torchrun.empty()) return torchrun;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"})
    if (source == "Open MPI" && env.has(name)) return env.text(name);
  if (source == "Slurm") return env.text("SLURM_JOB_ID") + "." + env.text("SLURM_STEP_ID");
  if (source == "PMI") return env.text("PMI_JOBID");
  return torchrun;
}

[[noreturn]] void throw_contradiction(const std::vector<Statement>& said) {
  std::string text;
  for (const Statement& s : said) text += (text.empty() ? "" : "; ") + s.to_string();
  throw Error(ExitCode::kConfiguration, "the launchers contradict each other: " + text, kHint);
}

std::vector<Statement> read_all(const Reader& env) {
  std::vector<Statement> said;
  const auto add = [&](std::optional<Statement> found) {
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
  add(read_slurm(env));
  add(read(env, {"PMI",
                 "PMI_RANK",
                 {"PMI_SIZE"},
                 {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                 {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}}));
  return said;
}

// Returns true if MPI gets its rank from this launcher. Slurm counts only if it was told to support MPI.
bool starts_mpi(const Reader& env, const std::string& source) {
  return source == "Open MPI" || source == "PMI" ||
         (source == "Slurm" && (env.has("PMIX_RANK") || env.has("PMI_RANK")));
}

}  // namespace

std::optional<RankEnvironment> discover_ranks(const EnvironmentLookup& lookup) {
  const Reader env(lookup);
  const std::vector<Statement> said = read_all(env);
  if (said.empty()) return std::nullopt;
  const bool in_slurm =
      std::any_of(said.begin(), said.end(), [](const Statement& s) { return s.who.source == "Slurm"; });
  Statement chosen = said.front();
  for (const Statement& other : said) {
    // A Slurm step (and the PMI that comes with it) may hold the daemons of another launcher: one task then
    // starts many ranks.
    const bool outer = other.who.source == "Slurm" || (other.who.source == "PMI" && in_slurm);
    if (outer && chosen.who.source != "Slurm" && other.who.size < chosen.who.size) continue;
    if (other.who.rank != chosen.who.rank || other.who.size != chosen.who.size) throw_contradiction(said);
    if (other.tells_node && !chosen.tells_node) {
      chosen.who.local_rank = other.who.local_rank;
      chosen.who.local_size = other.who.local_size;
      chosen.tells_node = true;
    }
    if (other.tells_node &&
        (other.who.local_rank != chosen.who.local_rank || other.who.local_size != chosen.who.local_size))
      throw_contradiction(said);
    if (starts_mpi(env, other.who.source)) chosen.who.by_mpi = true;
  }
  chosen.who.run_id = find_run_id(env, chosen.who.source);
  return chosen.who;
}

std::optional<RankEnvironment> discover_ranks() {
  return discover_ranks([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace recollect
