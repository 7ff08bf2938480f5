#include "tests/launch/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

extern char** environ;

namespace recollect::test {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

const char* const kConfiguration = R"(
model: {vocab_size: 61, n_positions: 16, n_embd: 24, n_layer: 2, n_head: 4, resid_pdrop: 0.1, embd_pdrop: 0.1,
        attn_pdrop: 0.1, initializer_range: 0.2}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 2, seed: 7}
optimizer: {name: sgd, momentum: 0.9, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
logging: {progress: off}
output_dir: out
overwrite: true
resume: auto
)";

bool is_a_launchers(const std::string& entry) {
  for (const char* prefix : {"OMPI_COMM_", "PMIX_", "PMI_", "SLURM_", "WORLD_SIZE=", "RANK=", "LOCAL_RANK=",
                             "LOCAL_WORLD_SIZE=", "TORCHELASTIC_", "RECOLLECT_RUN_ID="})
    if (entry.starts_with(prefix)) return true;
  return false;
}

std::vector<std::string> environment_with(const Environment& more) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!is_a_launchers(text) && !more.contains(text.substr(0, text.find('=')))) entries.push_back(text);
  }
  for (const auto& [name, value] : more) entries.push_back(name + "=" + value);
  // What a run does, and says, of a machine that is busy with other tests is for the test of that.
  constexpr const char* kWaits = "OMP_WAIT_POLICY";
  if (!std::getenv(kWaits) && !more.contains(kWaits)) entries.push_back(kWaits + std::string("=passive"));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Name, state and parent of a process; an empty name where there is none.
struct Status {
  std::string name;
  char state = 0;
  pid_t parent = 0;
};

Status status_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text,
               '\0');  // of a process that goes away meanwhile: nothing; a bare buffer would throw
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  Status status{text.substr(open + 1, close - open - 1)};
  std::istringstream(text.substr(close + 1)) >> status.state >> status.parent;
  return status;
}

std::vector<pid_t> all_descendants(pid_t ancestor) {
  std::multimap<pid_t, pid_t> children;
  DIR* folder = ::opendir("/proc");
  while (const dirent* entry = folder ? ::readdir(folder) : nullptr)
    if (const pid_t pid = std::atoi(entry->d_name); pid > 0) children.emplace(status_of(pid).parent, pid);
  if (folder) ::closedir(folder);
  std::vector<pid_t> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void expect_no_report(const std::string& text) {
  for (const char* sign : {"Sanitizer", "runtime error:"})
    EXPECT_EQ(text.find(sign), std::string::npos) << text;
}

}  // namespace

Process::Process(const Words& command, const std::string& folder, const Environment& environment)
    : folder_(folder) {
  std::vector<std::string> words = command, variables = environment_with(environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "stdout.txt", flags, 0644);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "stderr.txt", flags, 0644);
  const int error = ::posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                   pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words.front());
}

Process::~Process() {
  if (reaped_) return;
  std::vector<pid_t> all = all_descendants(pid_);
  all.push_back(pid_);
  for (const pid_t pid : all) ::kill(pid, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Finished Process::wait(std::chrono::seconds bound) {
  Finished finished;
  int status = 0;
  const auto deadline = steady_clock::now() + bound;
  while (!reaped_ && steady_clock::now() < deadline) {
    reaped_ = ::waitpid(pid_, &status, WNOHANG) == pid_;
    if (!reaped_) std::this_thread::sleep_for(2ms);
  }
  finished.out = test::TemporaryFolder::read(folder_ + "/stdout.txt");
  finished.err = test::TemporaryFolder::read(folder_ + "/stderr.txt");
  expect_no_report(finished.err);
  EXPECT_TRUE(reaped_) << "not done after " << bound.count() << " s\n" << finished.out << finished.err;
  if (reaped_) finished.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return finished;
}

std::vector<pid_t> descendants(pid_t ancestor, const std::string& name) {
  std::vector<pid_t> found = all_descendants(ancestor);
  std::erase_if(found, [&](pid_t pid) { return status_of(pid).name != name; });
  return found;
}

bool is_running(pid_t pid) {
  const Status status = status_of(pid);
  return !status.name.empty() && status.state != 'Z' && status.state != 'X';
}

bool is_stopped(pid_t pid) { return status_of(pid).state == 'T'; }

Workplace::Workplace() { folder_.write("c.yaml", kConfiguration); }

Finished Workplace::recollect(const Words& words, const Environment& environment) const {
  return Process(Words{recollect_binary()} + words, folder_.path(), environment).wait(kBound);
}

Finished Workplace::train(const Words& words, const Environment& environment) const {
  return recollect(Words{"train", "c.yaml"} + words, environment);
}

Finished Workplace::train_under_mpirun(int ranks, const Words& words, const Environment& environment) const {
  return Process(
             mpirun() + Words{"-np", std::to_string(ranks), recollect_binary(), "train", "c.yaml"} + words,
             folder_.path(), environment)
      .wait(kBound);
}

std::vector<nlohmann::json> Workplace::metrics(const std::string& output) const {
  std::ifstream lines(file(output + "/metrics.jsonl"));
  std::vector<nlohmann::json> metrics;
  for (std::string line; std::getline(lines, line);) metrics.push_back(nlohmann::json::parse(line));
  return metrics;
}

int times_in(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string recollect_binary() { return RECOLLECT_BINARY; }

Words mpirun() {
  return {RECOLLECT_MPIRUN,
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "mpi_yield_when_idle",
          "1",
          "--mca",
          "btl_vader_single_copy_mechanism",
          "none"};
}

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace recollect::test
