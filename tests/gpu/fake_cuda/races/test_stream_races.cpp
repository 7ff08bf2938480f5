// ThreadSanitizer sees a wait that is missing between streams, though every order of the device would come out right.
#include "tests/gpu/fake_cuda/fixture.h"
#include "tests/gpu/fake_cuda/races/expect_race.h"

namespace recollect::fake_cuda {
namespace {

using cuda::check;
using cuda::Event;
using cuda::Stream;

class StreamRaces : public FakeCuda {};

// `fills` on one stream what another one then reads, in the order in which they are waited for.
void read_what_is_filled(bool waits, bool replayed) {
  restart({.order = RunOrder::kEarly});
  const Stream one, two;
  const Event forked(cudaEventDisableTiming), made(cudaEventDisableTiming), joined(cudaEventDisableTiming);
  const Numbers<int> from(4), to(4);
  if (replayed) check(cudaStreamBeginCapture(one.get(), cudaStreamCaptureModeThreadLocal), "");
  check(cudaEventRecord(forked.get(), one.get()), "");
  check(cudaStreamWaitEvent(two.get(), forked.get(), 0), "");
  fill(from, 1, two);
  check(cudaEventRecord(made.get(), two.get()), "");
  if (waits) check(cudaStreamWaitEvent(one.get(), made.get(), 0), "");
  copy(to, from, one);
  check(cudaEventRecord(joined.get(), two.get()), "");
  check(cudaStreamWaitEvent(one.get(), joined.get(), 0), "");
  if (!replayed) {
    EXPECT_EQ(to.read(one), std::vector<int>(4, 1)) << "the order hides it";
    return;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamEndCapture(one.get(), &graph), "");
  check(cudaGraphInstantiate(&ready, graph, 0), "");
  for (int i = 0; i < 3; ++i) {
    check(cudaGraphLaunch(ready, one.get()), "");
    check(cudaStreamSynchronize(one.get()), "");
  }
  check(cudaGraphExecDestroy(ready), "");
  check(cudaGraphDestroy(graph), "");
}

TEST_F(StreamRaces, AreSilentWhereNothingIsMissing) {
  for (const bool replayed : {false, true}) read_what_is_filled(true, replayed);
}

TEST_F(StreamRaces, AMissingWaitIsARace) {
  for (const bool replayed : {false, true}) EXPECT_RACE(read_what_is_filled(false, replayed));
}

// Pinned memory is the host's too: when it may look depends on what it waited for.
void look(bool waits) {
  restart({.order = RunOrder::kEarly});
  const Stream stream, other;
  const Numbers<int> word(1, Place::kPinned);
  fill(word, 1, stream);
  check(cudaStreamSynchronize(waits ? stream.get() : other.get()), "");
  EXPECT_EQ(*word.data(), 1) << "the order hides it";
  check(cudaStreamSynchronize(stream.get()), "");
}

TEST_F(StreamRaces, TheHostLooksAtWhatItHasWaitedFor) {
  look(true);
  EXPECT_RACE(look(false));
}

}  // namespace
}  // namespace recollect::fake_cuda
