#include "launch/cli/config_command.h"

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/printable.h"
#include "launch/config/import.h"
#include "launch/config/read.h"
#include "launch/config/schema.h"
#include "launch/program/estimate.h"

namespace recollect {

namespace {

constexpr const char* kHint =
    "recollect config show CONFIG.yaml [section.key=value ...], config import FILE, config schema, or config "
    "reference";

void show(const Words& words) {
  namespace options = boost::program_options;
  std::optional<int> ranks;
  options::options_description own;
  own.add_options()("ranks", options::value<int>()->notifier([&](int given) { ranks = given; }));
  Config config = read_config_words("config show", parse_options(words, own));
  if (ranks && *ranks < 1)
    throw Error(ExitCode::kConfiguration, fmt::format("--ranks {}", *ranks), "it is how many are started");
  if (ranks)
    resolve_world(config, *ranks);
  else
    resolve_planned_world(config);
  fmt::print("{}", dump_with_origins(config));
}

void import_file(const Words& words) {
  if (words.size() != 1) throw UsageError("config import needs a file, and nothing else");
  const Imported imported = import_config(words.front());
  fmt::print("{}", imported.yaml);
  std::fflush(stdout);
  for (const std::string& line : imported.left_out)
    fmt::print(stderr, "{}: {}\n", printable(words.front()), printable(line));
}

}  // namespace

void config_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  if (words.empty()) throw Error(ExitCode::kConfiguration, "config needs to know what to print", kHint);
  const std::string& what = words.front();
  const Words rest(words.begin() + 1, words.end());
  if (what == "show") return show(rest);
  if (what == "import") return import_file(rest);
  if (what != "schema" && what != "reference")
    throw Error(ExitCode::kConfiguration, fmt::format("unknown word '{}' after config", what), kHint);
  if (!rest.empty())
    throw Error(ExitCode::kConfiguration, fmt::format("config {} takes no further words", what), kHint);
  const KeyTable table;
  if (what == "schema")
    fmt::print("{}\n", config_schema(table).dump(2));
  else
    fmt::print("{}", config_reference(table));
}

}  // namespace recollect
