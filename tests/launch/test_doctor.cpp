// The doctor never fails, whatever it finds: on this machine, on none, in limits, and with programs and
// libraries that crash or never answer.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/io/node.h"
#include "launch/doctor/check.h"
#include "launch/doctor/child.h"
#include "tests/launch/process.h"

namespace recollect::test::doctor_test {
namespace {

using doctor::Check;
using doctor::Group;
using doctor::Status;
using nlohmann::json;
using namespace std::chrono_literals;

const Environment kMpirunAllowed = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
json check_named(const json& report, const std::string& name) {
  for (const json& check : report.at("checks"))
    if (check.at("name") == name) return check;
  ADD_FAILURE() << "no check " << name << " in " << report.dump(2);
  return {};
}

TEST(Doctor, FindsThatThisMachineTrains) {
  const Workplace place;
  const Finished finished = place.recollect({"doctor", "--json"}, kMpirunAllowed);
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  const json report = json::parse(finished.out);
  EXPECT_EQ(report.at("ready"), true);
  std::set<std::string> names;
  for (const json& check : report.at("checks")) {
    const std::string status = check.at("status");
    EXPECT_TRUE(status == "ok" || status == "warn" || status == "missing" ||
                (status == "none" && check.at("group") == "GPU"))
        << check;
    EXPECT_NE(check.at("found"), "") << check;
    EXPECT_TRUE(status == "ok" || check.at("fix") != "") << check;
    names.insert(check.at("name"));
  }
  for (const char* name : {"instructions",
                           "cores",
                           "OpenMP threads",
                           "memory",
                           "huge pages",
                           "locked memory",
                           "open files",
                           "shared memory",
                           "temporary files",
                           "one step on the CPU",
                           "MPI library",
                           "mpirun -np 2",
                           "mpirun's rules",
                           "vader single copy",
                           "CUDA backend",
                           "CUDA driver",
                           "cublasLt",
                           "cudnn",
                           "nccl",
                           "file system",
                           "saved activations",
                           "g++",
                           "cmake",
                           "ninja",
                           "nvcc"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(check_named(report, "one step on the CPU").at("status"), "ok");
  if (check_named(report, "CUDA driver").at("status") == "none") {
    EXPECT_NE(check_named(report, "CUDA backend").at("status"), "missing") << "nobody wants it without a GPU";
  }
  EXPECT_EQ(check_named(report, "instructions").at("status") == "missing", false);
  EXPECT_NE(check_named(report, "MPI library").at("found").get<std::string>().find("MPI"), std::string::npos);
#ifndef __SANITIZE_THREAD__  // which knows nothing of the MPI library's locks
  EXPECT_EQ(check_named(report, "mpirun -np 2").at("status"), "ok") << report.dump(2);
#endif
  EXPECT_EQ(place.folder().count(), 3u);  // c.yaml and what was said: nothing is left here
}

TEST(Doctor, SaysHowMpirunRunsAsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root";
  const Workplace place;
  const std::string clean = "unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM; exec " +
                            recollect_binary() + " doctor --json";
  const Finished finished = Process({"sh", "-c", clean}, place.folder().path()).wait(Workplace::kBound);
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  const json report = json::parse(finished.out);
  for (const char* name : {"mpirun -np 2", "mpirun's rules"})
    EXPECT_NE(check_named(report, name).at("fix").get<std::string>().find("OMPI_ALLOW_RUN_AS_ROOT=1"),
              std::string::npos)
        << report.dump(2);
}

// An old cuDNN in front is told, whether or not there is another one.
TEST(Doctor, ShowsLibrariesThatArePassedOver) {
  const Workplace place;
  const std::string old = place.file("old/libcudnn.so.9");
  std::filesystem::create_directories(place.file("old"));
  std::filesystem::copy_file(RECOLLECT_FAKE_LIBRARY, old);
  std::ofstream(place.file("old/version")) << 91400;
  Environment environment = kMpirunAllowed;
  environment["RECOLLECT_NVIDIA_LIBRARIES"] = place.file("old");
  const Finished finished = place.recollect({"doctor", "--json"}, environment);
  const std::string found = check_named(json::parse(finished.out), "cudnn").at("found");
  EXPECT_NE(found.find("9.14.0 at " + old + " is too old"), std::string::npos) << found;
}

TEST(Doctor, ShowsNamesWithoutTheirControlCharacters) {
  const Workplace place;
  const Finished finished = place.recollect({"doctor", "--disk", "x\x1b]0;pwn\a"}, kMpirunAllowed);
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("disk of x\\x1b]0;pwn\\x07\n"), std::string::npos) << finished.out;
}

TEST(Doctor, PrintsAlignedLines) {
  const Workplace place;
  const Finished finished = place.recollect({"doctor", "--disk", "nowhere"}, kMpirunAllowed);
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  EXPECT_NE(finished.out.find("\ntraining on the CPU works here\n"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("disk of nowhere\n  warn     file system"), std::string::npos) << finished.out;
  std::istringstream lines(finished.out);
  int checks = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) continue;
    const std::string status = line.substr(2, line.find(' ', 2) - 2);
    if (line.substr(0, 33) == std::string(33, ' ')) {
      EXPECT_EQ(line.substr(33, 3), "-> ") << line;
      continue;
    }
    EXPECT_TRUE(status == "ok" || status == "warn" || status == "missing" || status == "none") << line;
    EXPECT_NE(line[11], ' ') << line;
    EXPECT_NE(line[33], ' ') << line;
    ++checks;
  }
  EXPECT_GE(checks, 24);
}

// What the user names comes first, for a run and so for the doctor too: a file there that cannot be loaded is
// not passed over, and another library's file leaves the others alone.
TEST(Doctor, LooksForLibrariesAsARunDoes) {
  const Workplace place;
  const std::string file = place.folder().write("named/libcudnn.so.9", "no library");
  const std::string folder = file.substr(0, file.rfind('/'));
  const auto report_with = [&](const Environment& environment) {
    const Finished finished = place.recollect({"doctor", "--json"}, environment);
    EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
    return json::parse(finished.out);
  };
  Environment named = kMpirunAllowed;
  const json before = report_with(named);
  named["RECOLLECT_NVIDIA_LIBRARIES"] = folder;
  const json after = report_with(named);
  for (const char* name : {"cublasLt", "nccl"})
    EXPECT_EQ(check_named(after, name).at("found"), check_named(before, name).at("found"));
  const json cudnn = check_named(after, "cudnn");
  EXPECT_EQ(cudnn.at("status"), "missing");
  EXPECT_NE(cudnn.at("found").get<std::string>().find(folder + ": "), std::string::npos) << cudnn;
  EXPECT_NE(cudnn.at("fix").get<std::string>().find("nvidia-cudnn-cu13"), std::string::npos) << cudnn;
}

TEST(Doctor, WhereNothingCanBeWrittenTrainingDoesNotWork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "its runtime writes a file before the program begins";
#endif
  const Workplace place;
  const std::string limited = "(ulimit -f 0; exec " + recollect_binary() + " doctor) 2>&1 | cat > said";
  const std::string script = "set -o pipefail; " + limited;
  const Finished finished = Process({"bash", "-c", script}, place.folder().path()).wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 2);
  const std::string said = test::TemporaryFolder::read(place.file("said"));
  EXPECT_NE(said.find("missing  one step on the CPU"), std::string::npos) << said;
  EXPECT_NE(said.find("recollect: training on the CPU will not work here: one step on the CPU"),
            std::string::npos)
      << said;
}

TEST(Doctor, AProgramThatDoesNotTrainIsMissing) {
  const SystemFiles files;
  const Group fails = doctor::check_training(files, "/bin/false");
  EXPECT_EQ(fails.checks[0].status, Status::kMissing);
  EXPECT_TRUE(fails.checks[0].needed);
  EXPECT_NE(fails.checks[0].found.find("did not train: exit status 1"), std::string::npos)
      << fails.checks[0].found;
  EXPECT_EQ(fails.checks[2].status, Status::kMissing) << fails.checks[2].found;
  const Group unknown = doctor::check_training(files, "");
  EXPECT_EQ(unknown.checks[0].status, Status::kWarn);
  EXPECT_NE(unknown.checks[0].found.find("not tried"), std::string::npos) << unknown.checks[0].found;
}

TEST(Doctor, NeedsNoFileOfTheSystem) {
  const test::TemporaryFolder nothing;
  const SystemFiles files(nothing.path());
  for (const Group& group : {doctor::check_processor(files), doctor::check_memory(files)})
    for (const Check& check : group.checks) EXPECT_FALSE(check.found.empty()) << check.name;
  EXPECT_FALSE(core_quota(files));
  EXPECT_FALSE(memory_limit(files));
  EXPECT_FALSE(memory_left(files));
  EXPECT_FALSE(meminfo("", "MemTotal"));
  EXPECT_FALSE(meminfo("MemTotal:", "MemTotal"));
  EXPECT_FALSE(files.read("/"));
  const Group memory = doctor::check_memory(files);
  EXPECT_NE(memory.checks[0].found.find("no /proc/meminfo"), std::string::npos);
  EXPECT_EQ(memory.checks[1].found, "not known: no /sys/kernel/mm/transparent_hugepage");
}

struct Tree {
  const char* name;
  std::map<std::string, std::string> files;
  std::optional<double> cores;
  std::optional<uint64_t> memory;
};

TEST(Doctor, ReadsTheLimitsOfControlGroups) {
  const std::string v2 = "/sys/fs/cgroup", in = "/proc/self/cgroup";
  for (const Tree& tree : std::vector<Tree>{
           {"of version 2, at the mount of a container",
            {{in, "0::/\n"}, {v2 + "/cpu.max", "150000 100000\n"}, {v2 + "/memory.max", "1073741824\n"}},
            1.5,
            uint64_t{1} << 30},
           {"without limits",
            {{in, "0::/a\n"}, {v2 + "/a/cpu.max", "max 100000\n"}, {v2 + "/a/memory.max", "max\n"}},
            std::nullopt,
            std::nullopt},
           {"of a group around ours, which is less",
            {{in, "0::/a/b\n"},
             {v2 + "/a/b/cpu.max", "400000 100000\n"},
             {v2 + "/a/cpu.max", "200000 100000\n"},
             {v2 + "/a/memory.max", "4096\n"}},
            2.0,
            4096},
           {"of version 1",
            {{in, "7:cpu,cpuacct:/d\n5:memory:/d\n"},
             {v2 + "/cpu/d/cpu.cfs_quota_us", "50000\n"},
             {v2 + "/cpu/d/cpu.cfs_period_us", "100000\n"},
             {v2 + "/memory/memory.limit_in_bytes", "9223372036854771712\n"},
             {v2 + "/memory/d/memory.limit_in_bytes", "8192\n"}},
            0.5,
            8192},
           {"of version 1, none",
            {{in, "7:cpu,cpuacct:/\n"},
             {v2 + "/cpu/cpu.cfs_quota_us", "-1\n"},
             {v2 + "/cpu/cpu.cfs_period_us", "100000\n"},
             {v2 + "/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
            std::nullopt,
            std::nullopt},
           {"that are no numbers",
            {{in, "nonsense\n::\n0::relative\n"}, {v2 + "/cpu.max", "lots\n"}, {v2 + "/memory.max", "-5\n"}},
            std::nullopt,
            std::nullopt}}) {
    const test::TemporaryFolder root;
    for (const auto& [path, text] : tree.files) root.write(path.substr(1), text);
    const SystemFiles files(root.path());
    const std::optional<CoreQuota> quota = core_quota(files);
    EXPECT_EQ(quota ? std::optional(quota->cores) : std::nullopt, tree.cores) << tree.name;
    EXPECT_EQ(memory_limit(files), tree.memory) << tree.name;
  }
}

// Which of two that allow the same decides who divides it: the outer one has more ranks.
TEST(Doctor, TheGroupThatAllowsTheFewestCoresIsKnown) {
  const test::TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/pod/box\n");
  root.write("sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  root.write("sys/fs/cgroup/pod/box/cpu.max", "175000 50000\n");
  const SystemFiles files(root.path());
  EXPECT_EQ(core_quota(files).value().group, "/sys/fs/cgroup/pod");
  EXPECT_EQ(within_quota(8, files), 3);
  EXPECT_EQ(within_quota(2, files), 2);
  root.write("sys/fs/cgroup/pod/box/cpu.max", "25000 50000\n");
  EXPECT_EQ(core_quota(files).value().group, "/sys/fs/cgroup/pod/box");
  EXPECT_EQ(within_quota(8, files), 1);
}

// The least that this group or one around it has left, files that the system could drop not counted.
TEST(Doctor, WhatAControlGroupHasLeftIsKnown) {
  const std::string groups = "sys/fs/cgroup";
  const auto left = [](const std::map<std::string, std::string>& tree) {
    const test::TemporaryFolder root;
    for (const auto& [path, text] : tree) root.write(path, text);
    return memory_left(SystemFiles(root.path()));
  };
  std::map<std::string, std::string> second = {
      {"proc/self/cgroup", "0::/outer/inner\n"},
      {groups + "/outer/memory.max", "1000000\n"},
      {groups + "/outer/memory.current", "900000\n"},
      {groups + "/outer/memory.stat",
       "anon 100000\ninactive_file 300000\nactive_file 200000\nslab_reclaimable 50000\n"},
      {groups + "/outer/inner/memory.max", "800000\n"},
      {groups + "/outer/inner/memory.current", "100000\n"}};
  EXPECT_EQ(left(second), 650000u);
  second[groups + "/outer/inner/memory.current"] = "400000\n";
  EXPECT_EQ(left(second), 400000u);
  second[groups + "/outer/inner/memory.current"] = "900000\n";
  EXPECT_EQ(left(second), 0u);
  EXPECT_EQ(left({{"proc/self/cgroup", "4:memory:/job\n"},
                  {groups + "/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                  {groups + "/memory/memory.usage_in_bytes", "5000\n"},
                  {groups + "/memory/job/memory.limit_in_bytes", "4000\n"},
                  {groups + "/memory/job/memory.usage_in_bytes", "3000\n"},
                  {groups + "/memory/job/memory.stat", "total_inactive_file 500\n"}}),
            1500u);
  EXPECT_FALSE(left({{"proc/self/cgroup", "0::/\n"}, {groups + "/memory.max", "max\n"}}));
}

TEST(Doctor, ALimitOfCoresOrMemoryIsNamed) {
  const test::TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:  1048576 kB\nMemAvailable:\t204800 kB\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const SystemFiles files(root.path());
  const Check cores = doctor::check_processor(files).checks[1];
  EXPECT_EQ(cores.status, Status::kWarn);
  EXPECT_NE(cores.found.find("the control group allows 0.50 at once"), std::string::npos) << cores.found;
  EXPECT_NE(cores.fix.find("raise the group's limit"), std::string::npos) << cores.fix;
  const Group memory = doctor::check_memory(files);
  EXPECT_EQ(memory.checks[0].status, Status::kWarn);
  EXPECT_NE(memory.checks[0].found.find("200.0 MiB of 1.0 GiB available"), std::string::npos)
      << memory.checks[0].found;
  EXPECT_EQ(memory.checks[1].status, Status::kWarn);
  EXPECT_EQ(memory.checks[1].found, "transparent huge pages: never");
}

TEST(Doctor, SaysWhenTheProcessorsTilesAreHidden) {
  using doctor::why_tiles_are_hidden;
  EXPECT_EQ(why_tiles_are_hidden({.amx_reported = true, .amx_granted = true, .family = 6, .model = 0x8f}),
            "");
  EXPECT_NE(why_tiles_are_hidden({.amx_reported = true, .family = 6, .model = 0x8f}).find("Linux 5.16"),
            std::string::npos);
  EXPECT_NE(why_tiles_are_hidden({.family = 6, .model = 0xcf}).find("this machine hides it"),
            std::string::npos);
  EXPECT_EQ(why_tiles_are_hidden({.family = 6, .model = 0x6a}), "");  // Ice Lake has none
  EXPECT_EQ(why_tiles_are_hidden({.family = 15, .model = 0x8f}), "");
}

TEST(Doctor, KnowsWhatMpirunMeans) {
  EXPECT_EQ(doctor::explain_mpirun(0, "step 1/1 ...").status, Status::kOk);
  EXPECT_EQ(doctor::explain_mpirun(0, "Read -1, expected 100, errno = 1").status, Status::kWarn);
  struct Case {
    int status;
    const char *output, *fix;
    Status is = Status::kMissing;
  };
  for (const Case& c : {Case{1, "mpirun has detected an attempt to run as root.\n",
                             "OMPI_ALLOW_RUN_AS_ROOT=1", Status::kWarn},
                        Case{1, "There are not enough slots available in the system\n",
                             "OMPI_MCA_rmaps_base_oversubscribe=1", Status::kWarn},
                        Case{2, "recollect: this MPI library ... (MPI_THREAD_MULTIPLE)\n", "Debian"},
                        Case{127, "", "openmpi-bin"}, Case{9, "-----\nsomething else\n", "by hand"}}) {
    const Check check = doctor::explain_mpirun(c.status, c.output);
    EXPECT_EQ(check.status, c.is) << c.output;
    EXPECT_NE(check.fix.find(c.fix), std::string::npos) << check.fix;
  }
  EXPECT_NE(doctor::explain_mpirun(9, "-----\nsomething else\n").found.find("something else"),
            std::string::npos);
}

TEST(Child, WhatItDoesStaysThere) {
  const doctor::Ended good = doctor::run_apart([] { return std::puts("words") < 0; }, 10s);
  EXPECT_TRUE(good.good());
  EXPECT_EQ(good.output, "words\n");
  const doctor::Ended crashed = doctor::run_apart(
      [] {
        ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would only say more
        return ::raise(SIGSEGV);
      },
      10s);
  EXPECT_FALSE(crashed.good());
  EXPECT_EQ(crashed.how(), "signal 11");
  const auto start = std::chrono::steady_clock::now();
  const doctor::Ended hung = doctor::run_program({"sleep", "1000"}, "", 100ms);
  EXPECT_FALSE(hung.in_time);
  EXPECT_EQ(hung.how(), "no answer in time");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
  EXPECT_EQ(doctor::run_program({"no-such-program-here"}, "", 10s).status, 127);
  EXPECT_EQ(doctor::run_program({"true"}, "/no/such/folder", 10s).status, 126);
}

TEST(Child, NothingItStartedStays) {
  // It ends at once; what it has started holds its output open and would stay for long.
  const doctor::Ended ended = doctor::run_program({"sh", "-c", "sleep 1000 & echo $!"}, "", 30s);
  ASSERT_TRUE(ended.good());
  const pid_t left = std::stoi(ended.output);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (is_running(left) && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  EXPECT_FALSE(is_running(left));
}

TEST(Child, LaunchersAreForgotten) {
  ::setenv("WORLD_SIZE", "4", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  ::setenv("OMPI_MCA_btl", "self", 1);
  const doctor::Ended ended =
      doctor::run_program({"sh", "-c", "echo $WORLD_SIZE$OMPI_COMM_WORLD_RANK-$OMPI_MCA_btl"}, "", 30s);
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_btl"}) ::unsetenv(name);
  EXPECT_EQ(ended.output, "-self\n");
}

}  // namespace
}  // namespace recollect::test::doctor_test
