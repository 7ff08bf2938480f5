#include "launch/run/options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/io/node.h"
#include "engine/io/spelling.h"
#include "launch/config/option_problem.h"
#include "launch/run/private_folder.h"

namespace recollect::launcher {

namespace {

namespace po = boost::program_options;

constexpr int kMaxRanks = 1024;
constexpr double kMaxSeconds = 1e6;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kConfiguration, what, hint);
}

// The flags as text; read_run_options() parses their values.
struct Flags {
  bool standalone = false, no_python = false, help = false;
  std::string ranks = "1", nodes = "1", log_dir, redirects, tee, filter, run_id, master_addr;
  int max_restarts = 0, master_port = 0;
  double monitor_interval = 0.1, grace = 30;

  OptionTable description();
};

OptionTable Flags::description() {
  OptionTable all;
  const auto in = [](auto& to, const char* shown) { return po::value(&to)->value_name(shown); };
  all.add_options()("nproc-per-node", in(ranks, "N|auto|gpu|cpu"),
                    "ranks (1); auto: one a GPU, else one a core")(
      "standalone", po::bool_switch(&standalone), "one node, a free port: what happens anyway")(
      "nnodes", in(nodes, "1"), "one node; for more use mpirun or srun")(
      "max-restarts", in(max_restarts, "K"), "starts all again, up to K times (0)")(
      "grace", in(grace, "SECONDS"), "from SIGTERM to SIGKILL (30)")(
      "monitor-interval", in(monitor_interval, "SECONDS"), "looks after ranks so often (0.1)")(
      "log-dir", in(log_dir, "FOLDER"), "of a file a rank and stream; alone: --tee 3")(
      "redirects,r", in(redirects, "0-3|RANK:0-3,..."), "to files: 1 stdout, 2 stderr, 3 both")(
      "tee,t", in(tee, "0-3|RANK:0-3,..."), "to files and here")("local-ranks-filter", in(filter, "RANK,..."),
                                                                 "shows only these here")(
      "run-id", in(run_id, "NAME"), "names the folder of logs")("rdzv-id", in(run_id, "NAME"), "the same")(
      "master-addr", in(master_addr, "HOST"), "MASTER_ADDR (127.0.0.1)")(
      "master-port", in(master_port, "PORT"), "MASTER_PORT (a free one)")(
      "no-python", po::bool_switch(&no_python), "runs FILE.py itself, not python3 -u FILE.py")(
      "help,h", po::bool_switch(&help), "prints this");
  return all;
}

// Whether other launchers use this flag for the number of ranks.
bool counts_ranks(std::string_view flag) {
  constexpr std::string_view kFlags[] = {"-n", "--ntasks", "--num-processes", "--num-gpus", "--gpus"};
  return std::find(std::begin(kFlags), std::end(kFlags), flag) != std::end(kFlags);
}

// `value` is the word after the flag.
[[noreturn]] void refuse_flag(const std::string& flag, const std::string& value, const OptionTable& known) {
  if (counts_ranks(flag))
    refuse("unknown flag " + flag, fmt::format("write --nproc-per-node {}", value.empty() ? "N" : value));
  if (flag == "-m" || flag == "--module")
    refuse(flag + " is not one of run's flags", "write: python3 -m MODULE");
  if (flag.starts_with("--rdzv-") || flag == "--node-rank")
    refuse(flag + " is for several nodes, and run starts ranks on one", "for more nodes use mpirun or srun");
  std::vector<std::string> names;
  for (const auto& option : known.options()) names.push_back("--" + option->long_name());
  const std::string near = nearest(flag, std::vector<std::string_view>(names.begin(), names.end()));
  refuse("unknown flag " + flag,
         near.empty() ? "recollect run --help lists the flags" : "did you mean " + near + "?");
}

// The number that a flag is given, after its name in the same word or as the next word; empty if there is
// none. The name of the flag ends at `end`.
std::string value_behind(const std::string& flag, std::size_t end, const std::string& next) {
  const std::size_t digit = flag.find_first_of("0123456789", end);
  if (digit != std::string::npos) return flag.substr(digit);
  return next.find_first_not_of("0123456789") == std::string::npos ? next : "";
}

// Takes the flags before the program from `words`, and spells them with dashes. `words` keeps the program and
// its arguments.
Words take_flags(Words& words, const OptionTable& known) {
  Words flags;
  auto at = words.begin();
  while (at != words.end() && at->size() > 1 && at->front() == '-') {
    std::string flag = *at++;
    if (flag == "--") break;
    const bool is_long = flag.starts_with("--");
    const std::size_t end = std::min(is_long ? flag.find('=') : 2, flag.size());
    if (is_long) std::replace(flag.begin(), flag.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    const auto* option = known.find_nothrow(is_long ? flag.substr(2, end - 2) : flag.substr(0, end), is_long);
    if (!option)
      refuse_flag(flag.substr(0, end), value_behind(flag, end, at == words.end() ? "" : *at), known);
    const bool wants_value = option->semantic()->max_tokens() > 0 && end == flag.size();
    flags.push_back(std::move(flag));
    if (wants_value && at != words.end()) flags.push_back(*at++);
  }
  words.erase(words.begin(), at);
  return flags;
}

std::optional<int> to_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value)
                                                                                : std::nullopt;
}

int count_ranks(const std::string& text) {
  const int gpus = text == "gpu" || text == "auto" ? count_gpus() : 0;
  if (text == "gpu" && gpus == 0)
    refuse("--nproc-per-node gpu: this node has no GPU that may be used",
           "say how many ranks, or auto for one a core; CUDA_VISIBLE_DEVICES hides GPUs");
  const int cores = std::min(kMaxRanks, cores_to_use());
  if (text == "cpu" || text == "auto") return gpus > 0 ? gpus : cores;
  const int ranks = text == "gpu" ? gpus : to_number(text).value_or(0);
  if (ranks < 1 || ranks > kMaxRanks)
    refuse("--nproc-per-node " + text, fmt::format("it is 1 to {}, auto, gpu or cpu", kMaxRanks));
  return ranks;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');) parts.push_back(part);
  return parts;
}

int to_rank(const std::string& text, const char* flag, int ranks) {
  const auto rank = to_number(text);
  if (!rank || *rank >= ranks)
    refuse(fmt::format("--{}: '{}' is none of the {} ranks", flag, text, ranks),
           fmt::format("ranks are 0 to {}", ranks - 1));
  return *rank;
}

// For each rank 1 for stdout plus 2 for stderr. The text is "3" for all ranks, or "0:3,1:1" for some.
std::vector<int> to_streams(const std::string& text, const char* flag, int ranks) {
  const auto streams = [&](std::string_view word) {
    const auto value = to_number(word);
    if (!value || *value > 3)
      refuse(fmt::format("--{} {}", flag, text),
             "it is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:0-3,...");
    return *value;
  };
  if (text.find(':') == std::string::npos) return std::vector<int>(ranks, text.empty() ? 0 : streams(text));
  constexpr int kNotNamed = -1;
  std::vector<int> result(ranks, kNotNamed);
  for (const std::string& part : split(text)) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    const int rank = to_rank(part.substr(0, colon), flag, ranks);
    if (result[rank] != kNotNamed)
      refuse(fmt::format("--{} {}: rank {} twice", flag, text, rank), "name each rank once");
    result[rank] = streams(std::string_view(part).substr(std::min(colon + 1, part.size())));
  }
  std::replace(result.begin(), result.end(), kNotNamed, 0);
  return result;
}

std::vector<RankOutput> to_output(const Flags& flags, int ranks) {
  const bool only_folder = !flags.log_dir.empty() && flags.redirects.empty() && flags.tee.empty();
  const std::vector<int> redirects = to_streams(flags.redirects, "redirects", ranks);
  const std::vector<int> tee = to_streams(only_folder ? "3" : flags.tee, "tee", ranks);
  std::vector<bool> wanted(ranks, flags.filter.empty());
  for (const std::string& rank : split(flags.filter))
    wanted[to_rank(rank, "local-ranks-filter", ranks)] = true;
  std::vector<RankOutput> output(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (const int stream : {0, 1}) {
      const bool away = redirects[rank] >> stream & 1, both = tee[rank] >> stream & 1;
      output[rank].kept[stream] = away || both;
      output[rank].shown[stream] = wanted[rank] && (both || !away);
    }
  return output;
}

std::chrono::milliseconds to_time(double seconds, const char* flag, double least) {
  if (!(seconds >= least && seconds <= kMaxSeconds))
    refuse(fmt::format("--{} {}", flag, seconds),
           fmt::format("it is {} to {:.0f} seconds", least, kMaxSeconds));
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

void check(const Flags& flags) {
  if (flags.nodes != "1" && flags.nodes != "1:1")
    refuse("--nnodes " + flags.nodes + ": run starts ranks on one node", "for more nodes use mpirun or srun");
  if (flags.max_restarts < 0) refuse(fmt::format("--max-restarts {}", flags.max_restarts), "it is 0 or more");
  if (flags.master_port < 0 || flags.master_port > 65535)
    refuse(fmt::format("--master-port {}", flags.master_port), "it is 1 to 65535");
  if (flags.standalone && (flags.master_port != 0 || !flags.master_addr.empty()))
    refuse("--standalone chooses address and port itself",
           "leave out --standalone, or --master-addr and --master-port");
  const bool fits = std::all_of(flags.run_id.begin(), flags.run_id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (!fits || flags.run_id.size() > 100)
    refuse("--run-id " + flags.run_id, "it names a folder: up to 100 letters, digits, '.', '_' and '-'");
}

}  // namespace

bool RunOptions::keeps_files() const {
  return std::any_of(output.begin(), output.end(),
                     [](const RankOutput& o) { return o.kept[0] || o.kept[1]; });
}

OptionTable run_options() { return Flags().description(); }

RunOptions read_run_options(const Words& words) {
  Flags flags;
  const OptionTable known = flags.description();
  RunOptions run;
  run.program = words;
  try {
    po::variables_map values;
    po::store(po::command_line_parser(take_flags(run.program, known)).options(known).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    refuse(option_problem(error, words), "recollect run --help lists the flags");
  }
  if (flags.help) return {};
  check(flags);
  if (run.program.empty()) throw UsageError("run needs a program to start");
  run.ranks = count_ranks(flags.ranks);
  run.max_restarts = flags.max_restarts;
  run.monitor_interval = to_time(flags.monitor_interval, "monitor-interval", 0.001);
  run.grace = to_time(flags.grace, "grace", 0);
  run.run_id = flags.run_id.empty() ? random_hex(4) : flags.run_id;
  if (!flags.master_addr.empty()) run.master_addr = flags.master_addr;
  run.master_port = flags.master_port;
  run.log_dir = flags.log_dir;
  run.output = to_output(flags, run.ranks);
  run.with_python = !flags.no_python;
  return run;
}

}  // namespace recollect::launcher
