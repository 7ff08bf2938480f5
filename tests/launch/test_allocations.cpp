// From the third step on, a run's ranks allocate nothing: not they, nor any library they use, in steps and in
// the evaluations between them, whatever is written of both. Counted under the C library in the real program,
// by a library that is preloaded into it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "tests/launch/allocation_counter/allocation_log.h"
#include "tests/launch/process.h"

namespace recollect::test::allocations_test {
namespace {

constexpr int64_t kFirstCounted = 3, kLastCounted = 6, kStepsOfRun = 8;

// The log that the processes of a run share with this one.
class SharedLog {
 public:
  explicit SharedLog(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::ftruncate(file, sizeof(AllocationLog)), 0);
    void* memory = ::mmap(nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the log");
    log_ = static_cast<AllocationLog*>(memory);
    log_->first_step = kFirstCounted;
    log_->last_step = kLastCounted;
  }
  ~SharedLog() { ::munmap(log_, sizeof(AllocationLog)); }
  SharedLog(const SharedLog&) = delete;
  SharedLog& operator=(const SharedLog&) = delete;

  const AllocationLog* operator->() const { return log_; }

  // Allocations of all processes but one, by the place that they come from.
  std::map<std::string, int> by_place(pid_t but) const {
    std::map<std::string, int> places;
    for (int64_t i = 0; i < std::min<int64_t>(log_->allocations, kMostAllocations); ++i) {
      const Allocation& entry = log_->list[i];
      if (entry.process == but) continue;
      std::string place = std::string(entry.call) + " of " + std::to_string(entry.bytes) + " bytes";
      for (const auto& caller : entry.callers)
        if (*caller) place += std::string(" < ") + caller;
      ++places[place];
    }
    return places;
  }

 private:
  AllocationLog* log_ = nullptr;
};

// Of several lengths, and not all with the same keys.
const char* const kLines =
    "{\"input_ids\": [1, 2, 3]}\n"
    "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}\n"
    "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9], \"labels\": [1, 2, 3, 4, 5, 6, 7, 8, -100]}\n"
    "{\"input_ids\": [1, 2]}\n";

struct CountedLayout {
  const char* name;
  Words launcher, words;
  int processes;
};

const CountedLayout kCountedLayouts[] = {
    {"OneRank", {}, {}, 1},
    {"TwoThreads", {}, {"parallelism.ranks_per_process=2", "parallelism.tensor_parallel_size=2"}, 1},
    {"ChangingLengths",
     {},
     {"parallelism.ranks_per_process=2", "parallelism.data_parallel_size=2", "data.format=jsonl",
      "data.path=held-out.jsonl", "data.padding=longest", "data.pad_to_multiple_of=1",
      "data.group_by_length=true", "training.compile=ahead"},
     1},
    {"Packed",
     {},
     {"data.format=jsonl", "data.path=held-out.jsonl", "data.shuffle=false", "data.packing=within"},
     1},
    {"TwoProcesses",
     {"run", "--nproc-per-node", "2"},
     {"parallelism.tensor_parallel_size=2", "parallelism.communicator=local"},
     3},
    {"TwoProcessesOverTcp",
     {"run", "--nproc-per-node", "2"},
     {"parallelism.data_parallel_size=2", "parallelism.communicator=tcp"},
     3},
};

void PrintTo(const CountedLayout& layout, std::ostream* out) { *out << layout.name; }

class Allocations : public testing::TestWithParam<CountedLayout> {};

TEST_P(Allocations, NoneFromTheThirdStepOn) {
  const CountedLayout& layout = GetParam();
  const Words common = {"device.backend=cpu",
                        "model.n_layer=5",
                        "model.n_embd=48",
                        "data.sequence_length=16",
                        "training.max_steps=" + std::to_string(kStepsOfRun),
                        "activation_checkpointing.mode=full",
                        "activation_checkpointing.cpu_checkpointing=true",
                        "logging.steps=1",
                        "logging.report_to=[jsonl, tensorboard]",
                        "evaluation.every_steps=2",
                        "evaluation.batches=2",
                        "evaluation.format=jsonl",
                        "evaluation.path=held-out.jsonl"};
  for (const char* precision : {"fp32", "bf16"})
    for (const char* threads : {"1", "2"}) {
      const Workplace place;
      place.folder().write("held-out.jsonl", kLines);
      const SharedLog log(place.file("allocations"));
      const Words variant = {std::string("training.precision=") + precision,
                             std::string("device.threads=") + threads};
      Process run(Words{recollect_binary()} + layout.launcher + Words{"train", "c.yaml"} + common +
                      layout.words + variant,
                  place.folder().path(),
                  {{"OMP_WAIT_POLICY", "passive"},  // threads that wait leave the core to others
                   {"LD_PRELOAD", RECOLLECT_ALLOCATION_COUNTER},
                   {kAllocationLogVariable, place.file("allocations")}});
      const pid_t first = run.pid();
      const Finished finished = run.wait(Workplace::kBound);
      ASSERT_EQ(finished.status, 0) << finished.err;
      ASSERT_EQ(log->step, kStepsOfRun + 1);
      EXPECT_EQ(log->processes, layout.processes);
      EXPECT_GT(log->outside, 1000);
      EXPECT_LT(log->allocations, kMostAllocations);
      // The launcher reads what its ranks say, and says it: it may allocate.
      const pid_t launcher = layout.launcher.empty() ? 0 : first;
      for (const auto& [from, times] : log.by_place(launcher))
        ADD_FAILURE() << precision << ", " << threads << " threads: " << times << " times " << from;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Allocations, testing::ValuesIn(kCountedLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::allocations_test
