// From the third step on, a run's ranks allocate nothing: not they, nor any library they use, in steps and in
// the evaluations between them, whatever is written of both. Counted under the C library in the real program,
// by a library that is preloaded into it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>

#include "tests/launch/allocation_counter/allocation_log.h"
#include "tests/launch/process.h"

namespace recollect::test::allocations_test {
namespace {

constexpr int64_t kFirstCounted = 3, kLastCounted = 6, kStepsOfRun = 8;

// The log that the processes of a run share with this one.
class SharedLog {
 public:
  SharedLog(const std::string& path, int64_t first_counted, int64_t last_counted) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::ftruncate(file, sizeof(AllocationLog)), 0);
    void* memory = ::mmap(nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the log");
    log_ = static_cast<AllocationLog*>(memory);
    log_->first_step = first_counted;
    log_->last_step = last_counted;
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
                        "logging.report_to=[jsonl, tensorboard, mlflow]",
                        "evaluation.every_steps=1",
                        "evaluation.batches=2",
                        "evaluation.format=jsonl",
                        "evaluation.path=held-out.jsonl"};
  for (const char* precision : {"fp32", "bf16"})
    for (const char* threads : {"1", "2"}) {
      const Workplace place;
      place.folder().write("held-out.jsonl", kLines);
      const SharedLog log(place.file("allocations"), kFirstCounted, kLastCounted);
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

// All that a run allocates is counted, since it never says that it is in a step: 32 tokens more are fewer
// allocations more than there are tokens. The rest is what their text takes when it is put together.
TEST(Generation, AllocatesNothingForAToken) {
  const Workplace place;
  const std::string text = place.folder().write("text.txt", std::string(400, 'a'));
  const Words model = {"model.vocab_size=256", "model.n_positions=64",    "device.backend=cpu",
                       "device.threads=2",     "training.precision=bf16", "data.format=text",
                       "data.path=" + text};
  ASSERT_EQ(place.train(model + Words{"checkpoint.save_model=true"}).status, 0);
  const auto allocations = [&](const char* tokens) {
    const SharedLog log(place.file(std::string("allocations") + tokens), kFirstCounted, kLastCounted);
    Process run(Words{recollect_binary(), "generate", "c.yaml", "--json", "--prompt", "ab",
                      "--max-new-tokens", tokens} +
                    model,
                place.folder().path(),
                {{"OMP_WAIT_POLICY", "passive"},
                 {"LD_PRELOAD", RECOLLECT_ALLOCATION_COUNTER},
                 {kAllocationLogVariable, place.file(std::string("allocations") + tokens)}});
    const Finished finished = run.wait(Workplace::kBound);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(log->allocations, 0);
    return static_cast<int64_t>(log->outside);
  };
  const int64_t few = allocations("16"), many = allocations("48");
  EXPECT_GT(few, 1000);
  EXPECT_LT(many - few, 16);
}

INSTANTIATE_TEST_SUITE_P(All, Allocations, testing::ValuesIn(kCountedLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

// What a length leaves behind would add up: 1998 steps of lengths at random, evaluations of others between them.
TEST(TwoThousandRandomLengths, AllocateNothing) {
  constexpr int64_t kSteps = 2000, kLongest = 48;
  std::mt19937 random(11);
  std::string lines;
  for (int64_t i = 0; i < kSteps; ++i) {
    std::string ids = "1";
    for (uint64_t length = 2 + random() % (kLongest - 1); length > 1; --length)
      ids += ", " + std::to_string(random() % 60);
    lines += "{\"input_ids\": [" + ids + "]}\n";
  }
  const Workplace place;
  place.folder().write("lines.jsonl", lines);
  const SharedLog log(place.file("allocations"), kFirstCounted, kSteps);
  Process run(
      Words{recollect_binary(),
            "train",
            "c.yaml",
            "device.backend=cpu",
            "device.threads=1",
            "model.n_layer=2",
            "model.n_embd=16",
            "model.n_positions=48",
            "training.precision=fp32",
            "data.format=jsonl",
            "data.path=lines.jsonl",
            "data.sequence_length=" + std::to_string(kLongest),
            "data.padding=longest",
            "data.pad_to_multiple_of=1",
            "training.compile=ahead",
            "training.micro_batch_size=1",
            "training.global_batch_size=1",
            "training.max_steps=" + std::to_string(kSteps),
            "activation_checkpointing.mode=selective",
            "logging.verbose=true",
            "evaluation.every_steps=500",
            "evaluation.format=jsonl",
            "evaluation.path=lines.jsonl",
            "evaluation.batches=200"},
      place.folder().path(),
      {{"LD_PRELOAD", RECOLLECT_ALLOCATION_COUNTER}, {kAllocationLogVariable, place.file("allocations")}});
  const Finished finished = run.wait(Workplace::kBound);
  ASSERT_EQ(finished.status, 0) << finished.err;
  ASSERT_EQ(log->step, kSteps + 1);
  for (const auto& [from, times] : log.by_place(0)) ADD_FAILURE() << times << " times " << from;
  EXPECT_NE(finished.out.find("\n47 lengths of sequences"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace recollect::test::allocations_test
