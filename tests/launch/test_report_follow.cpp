// `recollect report --follow`: the page of a run that goes on, and of the same run when it has ended; and what a run knows of
// mode none.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/running_run.h"

namespace recollect::test::report_follow_test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(FollowedReport, IsOfTheRunSoFarAndAtLastOfTheWhole) {
  RunningRun run;
  ASSERT_TRUE(run.trains());
  Process follower({recollect_binary(), "report", "out", "--follow"}, run.place().folder().path());
  const auto page = [&] { return data_of(TemporaryFolder::read(run.place().file("out/report.html"))); };
  ASSERT_TRUE(comes_true([&] { return run.has("out/report.html") && page().at("live") > 0; }));
  const json live = page();
  EXPECT_EQ(live.at("runs").at(0).at("ranks").size(), 2u);
  EXPECT_GT(live.at("runs").at(0).at("training").at("step"), 0);
  const auto lines = [&] { return std::filesystem::file_size(run.place().file("out/metrics.jsonl")); };
  ASSERT_TRUE(comes_true([&, before = lines()] { return lines() > before; }));  // a step more, at least
  run.end();
  const Finished finished = follower.wait(30s);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("the run has ended\nwrote out/report.html\n"), std::string::npos)
      << finished.out;
  const json last = page();
  EXPECT_EQ(last.at("live"), 0) << "a page of a run that has ended stays as it is";
  EXPECT_GT(last.at("runs").at(0).at("training").at("step"), live.at("runs").at(0).at("training").at("step"));
}

TEST(FollowedReport, StopsWhereItIsToldTo) {
  RunningRun run;
  ASSERT_TRUE(run.trains());
  Process follower({recollect_binary(), "report", "out", "--follow", "--html", "mine.html"},
                   run.place().folder().path());
  ASSERT_TRUE(comes_true([&] { return run.has("mine.html"); }));
  ::kill(follower.pid(), SIGINT);
  const Finished finished = follower.wait(30s);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("stopped: the page is of the run so far"), std::string::npos) << finished.out;
  EXPECT_EQ(data_of(TemporaryFolder::read(run.place().file("mine.html"))).at("live"), 0);
  run.end();
}

TEST(FollowedReport, OfARunThatHasEndedIsWrittenOnce) {
  const Workplace place;
  ASSERT_EQ(place.train({}).status, 0);
  const std::string before = TemporaryFolder::read(place.file("out/report.html"));
  const Finished finished = place.recollect({"report", "out", "--follow"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "the run has ended\nwrote out/report.html\n");
  EXPECT_EQ(TemporaryFolder::read(place.file("out/report.html")), before) << "the run's own is another one";
}

TEST(FollowedReport, SaysWhatItCannotDo) {
  const Workplace place;
  for (const Words& words : {Words{"a", "b"}, Words{"a", "--json"}, Words{"a", "--trace", "t.json"}})
    EXPECT_EQ(place.recollect(Words{"report", "--follow"} + words).status, 2);
  const Finished nowhere = place.recollect({"report", "nowhere", "--follow"});
  EXPECT_EQ(nowhere.status, 3);
  EXPECT_NE(nowhere.err.find("there is no nowhere/memory.rank0.json"), std::string::npos) << nowhere.err;
}

// What the page's headline is made of: the run's own plan of mode none is that of `estimate`.
TEST(ModeNone, IsKnownToARunThatCheckpoints) {
  const Words words = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                       "activation_checkpointing.mode=full",
                       "activation_checkpointing.cpu_checkpointing=true"};
  const Workplace place;
  ASSERT_EQ(place.train(words).status, 0);
  const Finished estimate = place.recollect(Words{"estimate", "c.yaml", "--json"} + words);
  ASSERT_EQ(estimate.status, 0) << estimate.err;
  const json none = json::parse(estimate.out).at("none");
  const auto report = [&](const char* file) { return json::parse(TemporaryFolder::read(place.file(file))); };
  const json first = report("out/memory.rank0.json");
  EXPECT_EQ(first.at("mode_none").at("peak"), none.at("memory").at("peak"));
  EXPECT_GT(first.at("mode_none").at("peak"), first.at("measured").at("peak"));
  EXPECT_DOUBLE_EQ(first.at("mode_none").at("step"), none.at("step_seconds"));
  EXPECT_DOUBLE_EQ(first.at("mode_none").at("with_step"), json::parse(estimate.out).at("step_seconds"));
  EXPECT_FALSE(report("out/memory.rank1.json").contains("mode_none")) << "once is enough";
  ASSERT_EQ(place.train({"output_dir=plain"}).status, 0);
  EXPECT_FALSE(report("plain/memory.rank0.json").contains("mode_none"));
}

}  // namespace
}  // namespace recollect::test::report_follow_test
