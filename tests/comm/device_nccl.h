// Ranks whose NCCL is the fake one.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "comm/nccl/nccl_communicator.h"
#include "tests/comm/device_streams.h"
#include "tests/comm/fake_nccl/control.h"

namespace recollect::test {

inline void* fake_nccl() {
  static void* const library = ::dlopen(RECOLLECT_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(::dlerror());
  return library;
}

inline nccl::Api load_fake_nccl() {
  return nccl::load_api([](const char* name) { return ::dlsym(fake_nccl(), name); }, RECOLLECT_FAKE_NCCL);
}

// How the fake one behaves while this object lives.
class Behaviour {
 public:
  Behaviour() { reset(); }
  ~Behaviour() { reset(); }
  FakeNcclControl* operator->() {
    return static_cast<FakeNcclControl*>(::dlsym(fake_nccl(), "fake_nccl_control"));
  }

 private:
  void reset() {
    FakeNcclControl* control = operator->();
    control->~FakeNcclControl();
    new (control) FakeNcclControl();
  }
};

inline std::shared_ptr<WorkerRuntime> gpu_of(const Communicator& world) {
  return std::make_shared<WorkerRuntime>("GPU " + std::to_string(world.rank()));
}

inline device::Watchdog::Settings patience(std::chrono::milliseconds timeout) {
  return {.timeout = timeout, .grace = std::chrono::seconds(20), .abort = {}};
}

}  // namespace recollect::test
