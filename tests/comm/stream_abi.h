// What a stream of the tests looks like to the fake NCCL, which knows it by its address alone.
#pragma once

namespace recollect::test {

struct StreamAbi {
  void (*enqueue_function)(StreamAbi* stream, void (*function)(void*), void* argument);
};

}  // namespace recollect::test
