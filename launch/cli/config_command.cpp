#include "launch/cli/config_command.h"

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "launch/config/import.h"
#include "launch/config/read.h"
#include "launch/config/schema.h"
#include "launch/program/estimate.h"

namespace recollect {

namespace {

struct ShowWords {
  std::optional<int> ranks;

  OptionTable options();
};

OptionTable ShowWords::options() {
  namespace po = boost::program_options;
  OptionTable table = key_options();
  table.add_options()("ranks",
                      po::value<int>()->notifier([this](int given) { ranks = given; })->value_name("N"),
                      "what N ranks would make of it; as many as it asks for otherwise");
  return table;
}

void take_no_words(const char* command, const Words& words) {
  if (!parse_options(words).empty()) throw UsageError(fmt::format("{} takes no further words", command));
}

}  // namespace

OptionTable config_show_options() { return ShowWords().options(); }

void config_show_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  ShowWords given;
  Config config = read_config_words("config show", parse_options(words, given.options()), kAnyBuild);
  const std::optional<int> ranks = given.ranks;
  if (ranks && *ranks < 1)
    throw Error(ExitCode::kConfiguration, fmt::format("--ranks {}", *ranks), "it is how many are started");
  if (ranks)
    resolve_world(config, *ranks);
  else
    resolve_planned_world(config);
  fmt::print("{}", dump_with_origins(config));
}

void config_import_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const Words files = parse_options(words);
  if (files.size() != 1) throw UsageError("config import needs a file, and nothing else");
  const Imported imported = import_config(files.front());
  fmt::print("{}", imported.yaml);
  std::fflush(stdout);
  for (const std::string& line : imported.left_out)
    fmt::print(stderr, "{}: {}\n", printable(files.front()), printable(line));
}

void config_schema_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  take_no_words("config schema", words);
  fmt::print("{}\n", config_schema(KeyTable()).dump(2));
}

void config_reference_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  take_no_words("config reference", words);
  fmt::print("{}", config_reference(KeyTable()));
}

}  // namespace recollect
