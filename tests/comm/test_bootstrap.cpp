// Who a process is, from made-up environments.
#include "comm/bootstrap.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/core/error.h"

namespace recollect {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<RankEnvironment> discover(const Environment& environment) {
  return discover_ranks([&](const char* name) -> const char* {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

void expect_error(const Environment& environment, const std::vector<std::string>& mentions) {
  try {
    discover(environment);
    FAIL() << "accepted an environment that should mention " << mentions.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    for (const std::string& text : mentions)
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

void expect_is(const Environment& environment, const RankEnvironment& expected) {
  const auto found = discover(environment);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, expected.rank);
  EXPECT_EQ(found->size, expected.size);
  EXPECT_EQ(found->local_rank, expected.local_rank);
  EXPECT_EQ(found->local_size, expected.local_size);
  EXPECT_EQ(found->source, expected.source);
  EXPECT_EQ(found->run_id, expected.run_id);
  EXPECT_EQ(found->by_mpi, expected.by_mpi);
}

const Environment kTorchrun{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"TORCHELASTIC_RUN_ID", "abc"},
                            {"MASTER_PORT", "29500"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "123456"}};
const Environment kSlurm{{"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};

Environment both(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(Bootstrap, NobodySpeaks) {
  EXPECT_FALSE(discover({}));
  // A batch script of Slurm is no job step.
  EXPECT_FALSE(discover({{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(Bootstrap, EachLauncherAlone) {
  expect_is({{"RECOLLECT_RANK", "1"}, {"RECOLLECT_WORLD_SIZE", "2"}, {"RECOLLECT_RUN_ID", "mine"}},
            {1, 2, 1, 2, "RECOLLECT", "mine"});
  expect_is({{"RECOLLECT_RANK", "3"},
             {"RECOLLECT_WORLD_SIZE", "4"},
             {"RECOLLECT_LOCAL_RANK", "1"},
             {"RECOLLECT_LOCAL_SIZE", "2"}},
            {3, 4, 1, 2, "RECOLLECT", ""});
  expect_is(kTorchrun, {5, 8, 1, 4, "torchrun", "abc:29500"});
  expect_is(kOpenMpi, {2, 4, 0, 2, "Open MPI", "123456", true});
  expect_is(kSlurm, {3, 5, 1, 2, "Slurm", "77.0"});
  expect_is({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}},
            {1, 3, 0, 1, "PMI", "", true});
}

TEST(Bootstrap, SlurmCountsTheTasksOfTheNode) {
  Environment last = kSlurm;
  last["SLURM_PROCID"] = "4";
  last["SLURM_LOCALID"] = "0";
  last["SLURM_NODEID"] = "2";
  expect_is(last, {4, 5, 0, 1, "Slurm", "77.0"});
  for (const char* broken : {"x", "2(x", "2(x1", "2;3", "(x2)", "9", "2)", "2(x0),1(x9)", "4(x1000000000)",
                             "4294967297", "99999999999999999999", "1(x4294967296),1(x9)", "-1", "1(x-5)"}) {
    last["SLURM_STEP_TASKS_PER_NODE"] = broken;
    expect_error(last, {std::string("'") + broken + "' tasks on the nodes"});
  }
  last.erase("SLURM_STEP_TASKS_PER_NODE");
  expect_is(last, {4, 5, 4, 5, "Slurm", "77.0"});
  last["SLURM_NNODES"] = "3";
  expect_error(last, {"Slurm: task 4 of 5"});
}

TEST(Bootstrap, OursComesFirstAndTheRunIdCanBeGiven) {
  expect_is(both({{"RECOLLECT_RANK", "5"}, {"RECOLLECT_WORLD_SIZE", "8"}}, kTorchrun),
            {5, 8, 1, 4, "RECOLLECT", "abc:29500"});
  expect_is(both({{"RECOLLECT_RUN_ID", "given"}}, kOpenMpi), {2, 4, 0, 2, "Open MPI", "given", true});
}

TEST(Bootstrap, ContradictionsListWhoSaidWhat) {
  expect_error(both(kTorchrun, kOpenMpi), {"torchrun says rank 5 of 8", "Open MPI says rank 2 of 4"});
  expect_error(both({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, kOpenMpi), {"rank 0 of 1", "rank 2 of 4"});
  expect_error(both({{"RECOLLECT_RANK", "1"}, {"RECOLLECT_WORLD_SIZE", "4"}}, kOpenMpi),
               {"RECOLLECT says rank 1"});
  // Four tasks that all believe to be alone.
  expect_error(both({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, kSlurm), {"Slurm says rank 3 of 5"});
}

// They may agree on the world and not on the node, which decides how ranks talk.
TEST(Bootstrap, ContradictionsAboutTheNodeToo) {
  Environment ours{{"RECOLLECT_RANK", "5"},
                   {"RECOLLECT_WORLD_SIZE", "8"},
                   {"RECOLLECT_LOCAL_RANK", "5"},
                   {"RECOLLECT_LOCAL_SIZE", "8"}};
  expect_error(both(ours, kTorchrun), {"RECOLLECT says rank 5 of 8 (5 of 8 on its node)",
                                       "torchrun says rank 5 of 8 (1 of 4 on its node)"});
  ours["RECOLLECT_LOCAL_RANK"] = "1";
  ours["RECOLLECT_LOCAL_SIZE"] = "4";
  expect_is(both(ours, kTorchrun), {5, 8, 1, 4, "RECOLLECT", "abc:29500"});
}

// By hand, with Slurm's numbers: the node's part comes from Slurm.
TEST(Bootstrap, WhoSaysNothingOfNodesLeavesItToTheNext) {
  expect_is(both({{"RANK", "3"}, {"WORLD_SIZE", "5"}}, kSlurm), {3, 5, 1, 2, "torchrun", ""});
}

TEST(Bootstrap, WhetherMpiIsThere) {
  EXPECT_FALSE(discover(kSlurm)->by_mpi);
  EXPECT_TRUE(discover(both(kSlurm, {{"PMIX_RANK", "3"}}))->by_mpi);
  EXPECT_TRUE(discover(both(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}))->by_mpi);
  EXPECT_FALSE(discover(kTorchrun)->by_mpi);
  EXPECT_TRUE(discover(both({{"RANK", "2"}, {"WORLD_SIZE", "4"}}, kOpenMpi))->by_mpi);
}

TEST(Bootstrap, ALauncherInsideASlurmStepIsNoContradiction) {
  Environment step = kSlurm;
  step["SLURM_PROCID"] = "1";
  step["SLURM_NTASKS"] = "2";
  step["PMI_RANK"] = "1";
  step["PMI_SIZE"] = "2";
  expect_is(both(kOpenMpi, step), {2, 4, 0, 2, "Open MPI", "123456", true});
  expect_is(both(kTorchrun, step), {5, 8, 1, 4, "torchrun", "abc:29500"});  // and no MPI: that is the step's
}

TEST(Bootstrap, NonsenseIsRefused) {
  expect_error({{"WORLD_SIZE", "2"}}, {"RANK is not"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2147483647"}}, {"WORLD_SIZE is '2147483647'", "1048576"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "4294967297"}}, {"WORLD_SIZE is '4294967297'"});
  expect_error({{"RANK", "0"}}, {"WORLD_SIZE is not"});
  expect_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"rank 2 of 2"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}, {"LOCAL_WORLD_SIZE is not"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}}, {"LOCAL_RANK is not"});
  expect_error({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"'-1'"});
  expect_error({{"RANK", "1x"}, {"WORLD_SIZE", "2"}}, {"'1x'"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"'99999999999'"});
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}},
               {"3 of 2"});
}

}  // namespace
}  // namespace recollect
