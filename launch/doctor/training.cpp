// Checks that training works: this program trains a step of a tiny model, alone and on two ranks of mpirun.
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "comm/mpi.h"
#include "launch/config/read.h"
#include "launch/doctor/check.h"
#include "launch/doctor/child.h"

namespace recollect::doctor {

namespace {

using namespace std::chrono_literals;

// The source tree has a script for these variables; with an installed program the user sets them by hand.
constexpr const char* kAsRoot =
    "`. launch/setup.sh` (export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1), or use "
    "`recollect run` instead";
constexpr auto kTrainingPatience = 60s;  // a busy machine is not a broken one

std::string tiny_model() {
  const ModelFamily& family = model_families().front();
  Config::Model model(family);
  model.values = family.sketch(
      family, {.vocabulary = 61, .longest = 16, .width = 32, .layers = 2, .heads = 4, .dropout = 0.1});
  return dump_model(model);
}

constexpr const char* kRest =
    "device: {threads: 1}\n"
    "training: {max_steps: 1}\n"
    "data: {format: random}\n"
    "logging: {progress: off}\n";

// A writable temporary folder, removed at the end; empty if none can be made.
class Folder {
 public:
  Folder() {
    const char* temporary = std::getenv("TMPDIR");
    for (const std::string& place : {std::string(temporary ? temporary : ""), std::string("/tmp"),
                                     std::string("/dev/shm"), std::string(".")}) {
      std::string pattern = place + "/recollect-doctor-XXXXXX";
      if (place.empty() || ::mkdtemp(pattern.data()) == nullptr) continue;
      std::ofstream file(pattern + "/c.yaml");
      file << tiny_model() << kRest << std::flush;
      if (file) {
        path_ = pattern;
        return;
      }
      std::filesystem::remove_all(pattern);
    }
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Check not_tried(const char* name, const Folder& folder) {
  if (folder.path().empty())
    return {.name = name,
            .status = Status::kMissing,
            .found = "not tried: no folder for temporary files can be written",
            .fix = "runs write files: free some space, raise ulimit -f, or point TMPDIR elsewhere"};
  return {.name = name,
          .status = Status::kWarn,
          .found = "not tried: /proc/self/exe does not say where this program is",
          .fix = "mount /proc"};
}

Check one_step(const std::string& program, const Folder& folder) {
  Check check{.name = "one step on the CPU"};
  const Ended ended =
      run_program({program, "train", "c.yaml", "output_dir=alone"}, folder.path(), kTrainingPatience);
  if (ended.good()) {
    check.found = "a tiny model trained";
    return check;
  }
  check.status = Status::kMissing;
  check.found = fmt::format("a tiny model did not train: {}: {}", ended.how(), telling_line(ended.output));
  check.fix = ended.status == 128 + SIGILL ? "this program was compiled for another processor: build it here"
                                           : "the line above says why";
  return check;
}

Check mpirun(const std::string& program, const Folder& folder) {
  const Ended ended = run_program({"mpirun", "-np", "2", program, "train", "c.yaml", "output_dir=two",
                                   "parallelism.tensor_parallel_size=2", "parallelism.timeout_seconds=30"},
                                  folder.path(), kTrainingPatience);
  Check check = explain_mpirun(ended.in_time ? ended.status : -1, ended.output);
  if (!ended.in_time) check.found = "two ranks did not end in time";
  return check;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// By default mpirun refuses to run as root and with more ranks than cores; checks both.
Check permissions() {
  Check check{.name = "mpirun's rules"};
  const bool root = ::geteuid() == 0;
  const bool allowed = is_set("OMPI_ALLOW_RUN_AS_ROOT") && is_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
  const bool crowd = is_set("OMPI_MCA_rmaps_base_oversubscribe");
  check.found = root ? allowed ? "root, and allowed to be" : "root, which it refuses" : "not root";
  check.found +=
      fmt::format("; {} slots on this machine, {}", ::sysconf(_SC_NPROCESSORS_ONLN),
                  crowd ? "and more ranks than that are allowed" : "more ranks than that are refused");
  if (root && !allowed) {
    check.status = Status::kWarn;
    check.fix = kAsRoot;
  }
  if (!crowd)
    check.fix += (check.fix.empty() ? "for more ranks: " : "; for more ranks: ") +
                 std::string("export OMPI_MCA_rmaps_base_oversubscribe=1");
  return check;
}

// Whether a process may read the memory of its child: returns 0, or the system's error number. Open MPI's
// ranks do so for long messages, and print "Read -1" if it is forbidden.
int read_of_another() {
  int* word = static_cast<int*>(
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (word == MAP_FAILED) return errno;
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  int copy = 0;
  const iovec here{&copy, sizeof copy}, there{word, sizeof copy};
  const int reason =
      child < 0 || ::process_vm_readv(child, &here, 1, &there, 1, 0) != sizeof copy ? std::max(errno, 1) : 0;
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::munmap(word, sizeof(int));
  return reason;
}

Check single_copy(const SystemFiles& files) {
  Check check{.name = "vader single copy"};
  const Ended ended = run_apart([] { return std::min(read_of_another(), 125); }, 5s);
  const char* set = std::getenv("OMPI_MCA_btl_vader_single_copy_mechanism");
  if (ended.good()) {
    check.found = "processes may read each other's memory";
    const std::string scope = first_line(files.read("/proc/sys/kernel/yama/ptrace_scope").value_or("0"));
    if (scope != "0" && scope != "1") check.found += "; but ptrace_scope is " + scope;
  } else {
    check.found = fmt::format("processes may not read each other's memory: {}",
                              ended.in_time ? std::strerror(ended.status) : "no answer");
    if (!set) {
      check.status = Status::kWarn;
      check.fix = "export OMPI_MCA_btl_vader_single_copy_mechanism=none, or Open MPI prints 'Read -1'";
    }
  }
  if (set) check.found += fmt::format("; OMPI_MCA_btl_vader_single_copy_mechanism={}", set);
  return check;
}

}  // namespace

Check explain_mpirun(int status, const std::string& output) {
  const auto says = [&](const char* text) { return output.find(text) != std::string::npos; };
  Check check{.name = "mpirun -np 2", .status = Status::kMissing};
  if (status == 0) {
    check.status = Status::kOk;
    check.found = "two ranks trained a tiny model together, with MPI_THREAD_MULTIPLE";
    if (says("Read -1")) {
      check.status = Status::kWarn;
      check.fix = "export OMPI_MCA_btl_vader_single_copy_mechanism=none";
    }
  } else if (status == 127) {
    check.found = "there is no mpirun";
    check.fix = "apt-get install openmpi-bin; without it: parallelism.ranks_per_process";
  } else if (says("as root") || says("allow-run-as-root")) {
    check.status = Status::kWarn;
    check.found = "it refuses to run as root";
    check.fix = kAsRoot;
  } else if (says("not enough slots")) {
    check.status = Status::kWarn;
    check.found = "it has fewer slots than two";
    check.fix =
        "`. launch/setup.sh` (export OMPI_MCA_rmaps_base_oversubscribe=1), or use `recollect run` instead";
  } else if (says("MPI_THREAD_MULTIPLE")) {
    check.found = "this MPI library does not grant MPI_THREAD_MULTIPLE";
    check.fix = "use an Open MPI built with thread support, as Debian's is";
  } else {
    check.found = fmt::format("two ranks did not train: exit status {}: {}", status, telling_line(output));
    check.fix = "try it by hand: mpirun -np 2 hostname";
  }
  return check;
}

Group check_training(const SystemFiles& files, const std::string& program) {
  const Folder folder;
  const bool can = !folder.path().empty() && !program.empty();
  Group group{"ranks", {}};
  group.checks.push_back(can ? one_step(program, folder) : not_tried("one step on the CPU", folder));
  group.checks.back().needed = true;
  group.checks.push_back({.name = "MPI library", .found = first_line(mpi_library())});
  group.checks.push_back(can ? mpirun(program, folder) : not_tried("mpirun -np 2", folder));
  group.checks.push_back(permissions());
  group.checks.push_back(single_copy(files));
  return group;
}

}  // namespace recollect::doctor
