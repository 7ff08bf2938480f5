// What a stream of the tests looks like to the fake NCCL, which knows it by its address alone.
#pragma once

#include <memory>

namespace recollect::test {

// Something that a stream does when it comes to it, step by step until it is done: a step waits for nobody. It comes
// again, from its beginning, where the stream was recorded and is replayed.
class StreamJob {
 public:
  virtual ~StreamJob() = default;
  virtual bool step(bool first) = 0;  // whether it is done
};

struct StreamAbi {
  void (*enqueue_job)(StreamAbi* stream, std::unique_ptr<StreamJob> job);
};

}  // namespace recollect::test
