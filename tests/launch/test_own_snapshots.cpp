// Which snapshots are a run's own: those that it has saved, earlier attempts of its launch included, and the one that it
// went on from. It goes on from no others behind its back, and goes back to no others.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "engine/core/error.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "tests/launch/run_support.h"

namespace recollect::test::own_snapshots_test {
namespace {

namespace fs = std::filesystem;

Words saves(int every, int steps) {
  return {"snapshot.every_steps=" + std::to_string(every), "training.max_steps=" + std::to_string(steps),
          "memory_report.at=[]", "profiling.step=0"};
}

int64_t newest_step(const Workplace& place) {
  const auto steps = SnapshotFolder(place.file("out/snapshots")).steps();
  return steps.empty() ? -1 : steps.front();
}

class Restarted : public testing::TestWithParam<const char*> {};

// A rank is killed in the first attempt; the second one goes on from what the first has saved, whatever `resume` says.
TEST_P(Restarted, GoesOnFromWhatItsLaunchHasSaved) {
  const std::string resume = GetParam();
  Launch launch(Words{"--nproc-per-node=1", "--max-restarts=1", "--no-python"} +
                shell("until [ -f go ]; do sleep 0.01; done; exec " + recollect_binary() +
                      " train c.yaml overwrite=true logging.steps=1000000 resume=" + resume +
                      " snapshot.every_steps=1 training.max_steps=2000000 memory_report.at=[]"));
  const Workplace& place = launch.place();
  const Workplace before;
  ASSERT_EQ(before.train(saves(2, 2)).status, 0);
  fs::copy(before.file("out/snapshots"), place.file("other"), fs::copy_options::recursive);
  if (resume == "never")  // in the way
    fs::copy(before.file("out"), place.file("out"), fs::copy_options::recursive);
  place.folder().write("go", "");
  ASSERT_TRUE(wait_until([&] { return newest_step(place) > 5; })) << launch.err();
  const auto ranks = [&](const char* attempt) {
    std::vector<pid_t> all = launch.ranks();
    std::erase_if(all, [&](pid_t p) { return variable_of(p, "TORCHELASTIC_RESTART_COUNT") != attempt; });
    return all;
  };
  for (const pid_t rank : ranks("0")) ::kill(rank, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return times_in(launch.err(), "restart 1 of 1") == 1; })) << launch.err();
  const int64_t killed = newest_step(place);
  ASSERT_TRUE(wait_until([&] { return newest_step(place) > killed + 3; })) << launch.out() << launch.err();
  launch.signal(SIGUSR1);
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, static_cast<int>(ExitCode::kPreempted)) << finished.err;
  EXPECT_EQ(times_in(finished.out, "resumed from out/snapshots/step-"), 1) << finished.out;
  int64_t step = resume == "other" ? 2 : 0;
  for (const nlohmann::json& line : place.metrics()) ASSERT_EQ(line["step"], ++step) << "a gap, or twice";
  EXPECT_EQ(step, newest_step(place));
}

INSTANTIATE_TEST_SUITE_P(With, Restarted, testing::Values("auto", "never", "other"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Requeued, AJobGoesOnFromWhatItHasSaved) {
  const Workplace place;
  ASSERT_EQ(place.train(saves(2, 2) + Words{"output_dir=other"}).status, 0);
  const auto attempt = [&](const char* job, const char* count, int steps) {
    return place.train(saves(1, steps) + Words{"resume=other/snapshots", "overwrite=false"},
                       {{"SLURM_JOB_ID", job}, {"SLURM_RESTART_COUNT", count}});
  };
  ASSERT_EQ(place
                .train(saves(1, 4) + Words{"resume=other/snapshots", "optimizer.learning_rate=1e300",
                                           "optimizer.max_grad_norm=0", "output_dir=failed"},
                       {{"SLURM_JOB_ID", "7"}})
                .status,
            7);
  ASSERT_EQ(attempt("7", "0", 4).status, 0);
  fs::copy_file(place.file("failed/.recollect.lock"), place.file("out/.recollect.lock"));
  const Finished again = attempt("7", "1", 5);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("resumed from out/snapshots/step-00000004"), std::string::npos) << again.out;
  EXPECT_EQ(place.metrics().size(), 3u);
  EXPECT_EQ(attempt("8", "1", 5).status, 0);  // another job takes nothing from it
  EXPECT_TRUE(fs::exists(place.file("out/earlier/1/snapshots/step-00000005")));
}

// Everything becomes infinite within a few steps.
const Words kPlain = {"optimizer.max_grad_norm=0", "optimizer.weight_decay=0", "optimizer.momentum=0",
                      "numerics.on_non_finite=rollback"};
const Words kDiverges = kPlain + Words{"optimizer.learning_rate=1e300"};

TEST(Rollback, KnowsNoOtherRunsSnapshots) {
  const Workplace place;
  ASSERT_EQ(place.train(kPlain + saves(9, 9) + Words{"optimizer.learning_rate=1e-4"}).status, 0);
  ASSERT_EQ(newest_step(place), 9);
  const Finished never = place.train(kDiverges + saves(50, 60) + Words{"resume=never"});
  EXPECT_EQ(never.status, 7) << never.err;
  EXPECT_NE(never.err.find("no snapshot has been saved yet"), std::string::npos) << never.err;
  EXPECT_EQ(newest_step(place), 9);
  // The one that it went on from is its own, wherever it is.
  fs::rename(place.file("out/snapshots"), place.file("other"));
  const Finished from = place.train(kDiverges + saves(1000, 60) + Words{"resume=other"});
  EXPECT_EQ(from.status, 7) << from.err;
  EXPECT_NE(from.err.find("; back to step 9, without"), std::string::npos) << from.err;
}

TEST(LaterSnapshots, AreNamedBeforeTheyAreReplaced) {
  const Workplace place;
  const Words keep = {"snapshot.keep=9"};
  ASSERT_EQ(place.train(saves(1, 4) + keep).status, 0);
  const std::string said =
      "out/snapshots has snapshots of later steps, which the first one of this run replaces: step-00000004, "
      "step-00000003";
  const Finished back = place.train(saves(9, 3) + keep + Words{"resume=out/snapshots/step-00000002"});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(times_in(back.err, said), 1) << back.err;
  EXPECT_EQ(newest_step(place), 3);
  const Finished on = place.train(saves(9, 4) + keep);
  EXPECT_EQ(on.err.find("later steps"), std::string::npos) << on.err;
}

// One that a run which died has put aside, to put another one in its place.
TEST(FormerSnapshots, HaveTheirNamesAgain) {
  const Workplace place;
  ASSERT_EQ(place.train(saves(2, 4)).status, 0);
  const std::string newest = place.file("out/snapshots/step-00000004");
  fs::rename(newest, newest + ".former");
  const Finished on = place.train(saves(2, 5));
  ASSERT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("resumed from out/snapshots/step-00000004"), std::string::npos) << on.out;
  EXPECT_FALSE(fs::exists(newest + ".former"));
}

// The run died when its file system, which cannot exchange two names, had given the new one the name; then a bit of it
// turned over.
TEST(FormerSnapshots, AreTakenInPlaceOfADamagedOne) {
  const Workplace place;
  ASSERT_EQ(place.train(saves(2, 4)).status, 0);
  const std::string newest = place.file("out/snapshots/step-00000004");
  fs::copy(newest, newest + ".former");
  place.folder().write("out/snapshots/step-00000004/manifest.json", "{}");
  const Finished on = place.train(saves(5, 5) + Words{"snapshot.keep=3"});
  ASSERT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("resumed from out/snapshots/step-00000004"), std::string::npos) << on.out;
  EXPECT_EQ(times_in(on.err, "passed over: out/snapshots/step-00000004/manifest.json: "), 1) << on.err;
  EXPECT_FALSE(fs::exists(newest + ".former"));
  EXPECT_FALSE(fs::exists(newest + ".removed"));
  EXPECT_EQ(place.recollect({"snapshot", "verify", "out/snapshots"}).status, 0);
}

TEST(SharedSnapshots, OpenNobodyElsesOutputFolder) {
  const Workplace place;
  const Words shared = {"snapshot.path=shared", "overwrite=false"};
  ASSERT_EQ(place.train(saves(2, 2) + shared).status, 0);
  ASSERT_EQ(place.train({"output_dir=other", "overwrite=false"}).status, 0);
  const Finished other = place.train(saves(2, 3) + shared + Words{"output_dir=other"});
  EXPECT_EQ(other.status, 6) << other.err;
  EXPECT_NE(other.err.find("other holds the files of another run"), std::string::npos) << other.err;
  EXPECT_EQ(place.train(saves(2, 3) + shared).status, 0) << "its own";
}

// As many as can be kept of a model of some size, for which no disk has room: a run that begins is refused, one that goes
// on is not.
TEST(SnapshotSpace, IsOnlyAskedForWhereNothingIsLost) {
  const Workplace place;
  const Words model = {"model.n_embd=256", "model.n_layer=4", "training.global_batch_size=1",
                       "device.backend=cpu", "training.precision=fp32"},
              many = {"snapshot.keep=65536"};
  const Finished begins = place.train(saves(2, 2) + model + many);
  EXPECT_EQ(begins.status, 6) << begins.err;
  EXPECT_NE(begins.err.find("snapshots need "), std::string::npos) << begins.err;
  ASSERT_EQ(place.train(saves(2, 2) + model).status, 0);
  const Finished goes_on = place.train(saves(2, 3) + model + many);
  EXPECT_EQ(goes_on.status, 0) << goes_on.err;
  EXPECT_EQ(times_in(goes_on.err, "snapshots need "), 1) << goes_on.err;
  EXPECT_EQ(newest_step(place), 3);
}

}  // namespace
}  // namespace recollect::test::own_snapshots_test
