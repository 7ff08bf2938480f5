// The memory that the system counts as a process's, arenas and all that lies beside them, is within 5 % of
// what was predicted before the arenas were reserved, and of what `recollect estimate` says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "tests/launch/process.h"

namespace recollect::test::resident_memory_test {
namespace {

constexpr double kWithin = 0.05,
                 kThreadsWithin = 0.02;  // of several ranks that are threads: what each leaves adds up

struct ResidentCase {
  const char* name;
  Words words;
  int processes = 1;
  bool by_mpi = false;
  double within = kWithin;
};

const ResidentCase kResidentCases[] = {
    {"OneRank", {"model.n_layer=4", "training.micro_batch_size=4"}},
    {"LargerArena", {"model.n_layer=6", "training.micro_batch_size=8"}},
    {"HostCheckpointing",
     {"model.n_layer=6", "training.micro_batch_size=4", "activation_checkpointing.mode=full",
      "activation_checkpointing.cpu_checkpointing=true"}},
    {"TwoThreads",
     {"model.n_layer=4", "training.micro_batch_size=4", "parallelism.ranks_per_process=2",
      "parallelism.tensor_parallel_size=2"},
     1,
     false,
     kThreadsWithin},
    {"FourThreads",
     {"model.n_layer=4", "training.micro_batch_size=4", "parallelism.ranks_per_process=4",
      "parallelism.tensor_parallel_size=2", "parallelism.data_parallel_size=2"},
     1,
     false,
     kThreadsWithin},
    {"TwoProcesses",
     {"model.n_layer=8", "training.micro_batch_size=4", "parallelism.tensor_parallel_size=2",
      "parallelism.communicator=local"},
     2},
    {"TwoProcessesOverTcp",
     {"model.n_layer=4", "training.micro_batch_size=4", "parallelism.data_parallel_size=2",
      "parallelism.communicator=tcp"},
     2},
    {"TwoProcessesByMpi",
     {"model.n_layer=4", "training.micro_batch_size=4", "parallelism.tensor_parallel_size=2"},
     2,
     true},
    {"Saved", {"model.n_layer=4", "training.micro_batch_size=4", "checkpoint.save_model=true"}},
    {"Snapshots", {"model.n_layer=4", "training.micro_batch_size=4", "snapshot.every_steps=1"}},
    {"LengthsCompiledAhead",
     {"model.n_layer=4", "training.micro_batch_size=4", "data.format=jsonl", "data.path=lines.jsonl",
      "data.padding=longest", "training.compile=ahead"}},
    {"LateLengths",
     {"model.n_layer=8", "model.n_embd=64", "training.micro_batch_size=1", "training.global_batch_size=1",
      "training.max_steps=120", "data.format=jsonl", "data.path=lines.jsonl", "data.padding=longest",
      "data.pad_to_multiple_of=1"}},
    {"ManyLines",
     {"model.n_layer=4", "training.micro_batch_size=4", "data.format=jsonl", "data.path=many.jsonl",
      "data.packing=within"}},
    {"ManyLinesOfTwoProcesses",
     {"model.n_layer=4", "training.micro_batch_size=4", "parallelism.data_parallel_size=2",
      "data.format=jsonl", "data.path=many.jsonl", "data.packing=within"},
     2},
};

void PrintTo(const ResidentCase& c, std::ostream* out) { *out << c.name; }

std::string lines_of_all_lengths() {
  std::string lines;
  for (int length = 2; length <= 128; ++length) {  // one token has no target
    lines += "{\"input_ids\": [1";
    for (int i = 1; i < length; ++i) lines += ", 1";
    lines += "]}\n";
  }
  return lines;
}

// Of which an index as 64-bit numbers would take a fourth of the model's memory.
std::string many_lines() {
  std::string lines;
  for (int line = 0; line < 250'000; ++line)
    lines += fmt::format("{{\"input_ids\": [{}, {}, {}]}}\n", line % 2000, line % 7, line % 11);
  return lines;
}

// Of the words "key=value" the one of the same key, if there is one, gives way.
void set_word(Words& words, const std::string& word) {
  const std::string key = word.substr(0, word.find('=') + 1);
  std::erase_if(words, [&](const std::string& other) { return other.starts_with(key); });
  words.push_back(word);
}

class Resident : public testing::TestWithParam<ResidentCase> {};

TEST_P(Resident, IsWithinFivePercentOfWhatWasPredicted) {
  const Workplace place;
  place.folder().write("lines.jsonl", lines_of_all_lengths());
  const bool many = std::string_view(GetParam().name).starts_with("ManyLines");
  if (many) place.folder().write("many.jsonl", many_lines());
  Words words = {"train",
                 "c.yaml",
                 "device.backend=cpu",
                 "device.threads=1",
                 "training.precision=fp32",
                 "training.max_steps=2",
                 "training.global_batch_size=8",
                 "model.n_embd=256",
                 "model.n_head=4",
                 "model.vocab_size=2000",
                 "model.n_positions=128",
                 "data.sequence_length=128",
                 "memory_report.at=[end]",
                 "memory_report.formats=[table,json]"};
  for (const std::string& word : GetParam().words) set_word(words, word);
  const Words launcher = GetParam().processes > 1 ? Words{"run", "--nproc-per-node", "2"} : Words{};
  const Finished run = GetParam().by_mpi ? place.train_under_mpirun(2, Words(words.begin() + 2, words.end()))
                                         : place.recollect(launcher + words);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(times_in(run.out, "resident, predicted"), 1) << run.out;
  EXPECT_EQ(times_in(run.out, "resident, measured"), 1) << run.out;
  EXPECT_EQ(times_in(run.out, ", the data's index of "), many && GetParam().processes > 1) << run.out;
  const Finished again = place.recollect({"report", "out"});
  EXPECT_EQ(times_in(again.out, "resident, measured"), 1) << again.out << again.err;
  Words asked = words;
  asked[0] = "estimate";
  const Finished estimate = place.recollect(asked + Words{"--json"});
  ASSERT_EQ(estimate.status, 0) << estimate.err;
  const auto estimated = nlohmann::json::parse(estimate.out).at("resident").at("predicted").get<double>();
  for (int rank = 0; rank < GetParam().processes; ++rank) {
    const std::string file = place.file("out/memory.rank" + std::to_string(rank) + ".json");
    const auto report = nlohmann::json::parse(TemporaryFolder::read(file));
    const auto predicted = report.at("resident").at("predicted").get<double>();
    const auto measured = report.at("resident").at("measured").get<double>();
    EXPECT_GT(measured, report.at("measured").at("arena").get<double>());
    EXPECT_NEAR(predicted, measured, GetParam().within * measured) << "rank " << rank;
    if (!GetParam().by_mpi) {  // what MPI's library takes for itself is known when it has begun
      EXPECT_NEAR(estimated, measured, kWithin * measured) << "rank " << rank << ", estimated";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Resident, testing::ValuesIn(kResidentCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::resident_memory_test
