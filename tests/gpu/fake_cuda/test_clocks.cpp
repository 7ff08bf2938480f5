// What the clocks of a fake device say of a training: every wait is named, and every op of a profile has its own time.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/config/read.h"
#include "launch/report/measurements.h"
#include "launch/report/profile.h"
#include "launch/train/profile_session.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cuda/ranks.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {
namespace {

using FakeClocks = FakeTraining;
using FakeRankClocks = FakeRanks;

// What steps take more with slow copies than with copies that take nothing: the same kernels, on clocks of the device.
TEST_F(FakeClocks, WhatAStepTakesMoreThanItComputesIsExposed) {
  struct Times {
    double span = 0, exposed = 0, to_host = 0, back = 0;
  };
  // After so many steps, by which all programs are there.
  const auto steps = [](const Clocks& clocks, const Words& words, int count, int after) {
    restart({.clocks = clocks});
    Config config = read_config_text("test.yaml", kTinyOnCuda, with(kHost, with({"model.n_layer=2"}, words)));
    resolve_world(config, 1);
    const std::unique_ptr<Communicator> alone = make_self_communicator();
    Session session(config, *alone);
    const auto now = [&] {
      const auto of = [&](StreamId stream) { return exposed_seconds(session.programs(), stream); };
      Times t{.span = 1e-9 * static_cast<double>(world().schedule().now()),
              .exposed = joined_seconds(session.programs()),
              .to_host = of(StreamId::kDeviceToHost),
              .back = of(StreamId::kHostToDevice)};
      for (int s = 0; s < kStreamCount; ++s) t.exposed += of(static_cast<StreamId>(s));
      return t;
    };
    for (int step = 0; step < after; ++step) session.step();
    const Times begun = now();
    for (int step = after; step < count; ++step) session.step();
    const Times end = now();
    EXPECT_EQ(world().replays > 0, words != kLaunched);
    return Times{end.span - begun.span, end.exposed - begun.exposed, end.to_host - begun.to_host,
                 end.back - begun.back};
  };
  const test::TemporaryFolder folder;
  const char* const lines = R"({"input_ids": [4, 9, 1, 30, 12, 3]}
{"input_ids": [12, 3, 8, 10, 2, 16, 9, 1, 5, 6]}
)";
  const Words none = {}, three = {"training.gradient_accumulation_steps=3"},
              lengths = {"data.format=jsonl",    "data.path=" + folder.write("lines.jsonl", lines),
                         "data.shuffle=false",   "data.sequence_length=12",
                         "data.padding=longest", "data.pad_to_multiple_of=6",
                         "model.n_positions=12", "training.max_steps=20"};
  struct Case {
    const Words& words;
    int steps;
    bool in_one_queue;
    int after = 0;
  };
  for (const auto& [words, count, in_one_queue, after] : {Case{none, 7, false},
                                                          {none, 7, true},
                                                          {kLaunched, 4, false},
                                                          {three, 7, true},
                                                          {lengths, 13, false, 2},
                                                          {lengths, 13, true, 2}}) {
    const Times still = steps({.graphs_in_one_queue = in_one_queue}, words, count, after),
                slow = steps({.copied = 2e-3, .graphs_in_one_queue = in_one_queue}, words, count, after);
    const std::string what = fmt::format("{} one queue {}", fmt::join(words, " "), in_one_queue);
    EXPECT_NEAR(slow.exposed, slow.span - still.span, 0.02 * (slow.span - still.span)) << what;
    EXPECT_GT(slow.exposed, 0.5 * still.span) << what;
    EXPECT_GT(slow.to_host, 0.1 * slow.exposed) << what;
    EXPECT_GT(slow.back, 0.1 * slow.exposed) << what;
    EXPECT_LT(still.exposed, 0.01 * still.span) << what;
  }
}

constexpr Clocks kClocks{.kernel = 2000, .copied = 0.02};
constexpr int64_t kRecorded = 3;
const Words kProfiled = with(kHost, {"training.max_steps=8", "profiling.step=8"});

// Throws where it is not so: in a process of its own no test would hear of it.
void expect_profile(const RankReport& report) {
  const Timeline& timeline = report.timeline;
  require(timeline.measured && timeline.recorded == kRecorded && timeline.not_timed > 0,
          "a step was recorded");
  int64_t copies = 0, kernels = 0;
  for (const StepTimeline::Run& run : timeline.measured->runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      const OpTime& time = run.ops[i];
      if (!time.ran()) continue;
      const Timeline::Op& op = timeline.ops[static_cast<std::size_t>(run.first) + i];
      const double took = static_cast<double>(time.end - time.begin);
      if (op.kind == "copy_to_host") {
        ++copies;
        const double cost = static_cast<double>(op.bytes) / kClocks.copied;
        require(op.bytes <= kClocks.small || std::abs(took - cost) < 5,
                fmt::format("{} takes {}", op.name, took));
      } else if (op.is == OpClass::kContraction || op.is == OpClass::kNormalisation) {
        ++kernels;
        const double rest = std::remainder(took, static_cast<double>(kClocks.kernel));
        require(took > 0.9 * kClocks.kernel && std::abs(rest) < 5, fmt::format("{} takes {}", op.name, took));
      }
    }
  require(copies > 0 && kernels > 20, "there are copies and kernels");
  const Profile profile = make_profile(timeline);
  double parts = profile.waiting + profile.between();
  for (const ProfileRow& row : profile.classes) parts += row.seconds;
  require(std::abs(parts - profile.step) < 1e-6, "the parts are the step");
  require(profile_text(timeline).find("launching and timing") != std::string::npos,
          "launching is told apart");
}

TEST_F(FakeClocks, AProfileHasTheTimeOfEachOp) {
  restart({.clocks = kClocks});
  for (const Words& ranks :
       {Words{}, Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}})
    test::on_ranks(read_config_text("test.yaml", kTinyOnCuda, with(kProfiled, ranks)),
                   [](const Config& config, Session& session) {
                     expect_profile(profile_session(config, session, kRecorded));
                   });
  EXPECT_GT(world().replays, 0) << "steps that are not timed";
}

TEST_F(FakeRankClocks, AProfileOfRanksToo) {
  expect_fine(test::run_as_processes(2, [](Communicator& world) {
    restart({.devices = 2, .clocks = kClocks});
    Config config =
        read_config_text("test.yaml", kTinyOnCuda, with(kProfiled, {"parallelism.tensor_parallel_size=2"}));
    resolve_world(config, world.size());
    {
      Session session(config, world);
      expect_profile(profile_session(config, session, kRecorded));
      world.barrier();
    }
    require(fake_cuda::world().replays > 0, "steps that are not timed are replayed");
  }));
}

}  // namespace
}  // namespace recollect::fake_cuda
