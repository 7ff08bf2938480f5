#include "launch/doctor/doctor.h"

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "launch/doctor/check.h"

namespace recollect {

namespace {

using doctor::Check;

using doctor::Status;

const char* name_of(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kWarn:
      return "warn";
    case Status::kNone:
      return "none";
    default:
      return "missing";
  }
}

// The path of this program; empty if the system does not tell it.
std::string own_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 && length < static_cast<ssize_t>(sizeof path) ? std::string(path, length) : std::string();
}

std::vector<doctor::Group> examine(const std::string& folder) {
  const SystemFiles files;
  return {doctor::check_processor(files),
          doctor::check_memory(files),
          doctor::check_training(files, own_program()),
          doctor::check_gpu(files),
          doctor::check_disk(folder),
          doctor::check_tools()};
}

std::string text(const std::vector<doctor::Group>& groups) {
  constexpr int kName = 22;
  std::string text;
  for (const doctor::Group& group : groups) {
    text += (text.empty() ? "" : "\n") + group.name + "\n";
    for (const Check& check : group.checks) {
      text += fmt::format("  {:<9}{:<{}}{}\n", name_of(check.status), check.name, kName, check.found);
      if (!check.fix.empty()) text += fmt::format("  {:<9}{:<{}}-> {}\n", "", "", kName, check.fix);
    }
  }
  return text;
}

std::string json(const std::vector<doctor::Group>& groups, bool ready) {
  // The output of other programs need not be UTF-8.
  using Json = nlohmann::ordered_json;
  Json document{{"ready", ready}, {"checks", Json::array()}};
  for (const doctor::Group& group : groups)
    for (const Check& check : group.checks)
      document["checks"].push_back({{"group", group.name},
                                    {"name", check.name},
                                    {"status", name_of(check.status)},
                                    {"found", check.found},
                                    {"fix", check.fix},
                                    {"needed", check.needed}});
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct DoctorWords {
  bool json = false;
  std::string disk = ".";

  OptionTable options();
};

OptionTable DoctorWords::options() {
  namespace po = boost::program_options;
  OptionTable table;
  table.add_options()("disk", po::value(&disk)->value_name("FOLDER"),
                      "the folder whose disk is examined; this one where not given")(
      "json", po::bool_switch(&json), "the same as JSON");
  return table;
}

}  // namespace

OptionTable doctor_options() { return DoctorWords().options(); }

void doctor_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  DoctorWords given;
  if (!parse_options(words, given.options()).empty()) throw UsageError("doctor takes no configuration");
  const bool as_json = given.json;
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes must not kill the doctor
  const std::vector<doctor::Group> groups = examine(given.disk);
  std::string lacking;
  bool tried = true;
  for (const doctor::Group& group : groups)
    for (const Check& check : group.checks) {
      if (check.needed && check.status == Status::kMissing)
        lacking += (lacking.empty() ? "" : ", ") + check.name;
      tried = tried && !(check.needed && check.found.starts_with("not tried"));
    }
  fmt::print("{}", as_json ? json(groups, lacking.empty()) : printable_lines(text(groups)));
  if (!lacking.empty())
    throw Error(ExitCode::kConfiguration, "training on the CPU will not work here: " + lacking);
  if (!as_json)
    fmt::print("\n{}\n",
               tried ? "training on the CPU works here" : "nothing here speaks against training on the CPU");
}

}  // namespace recollect
