// What a rank runs on, of what its configuration asks for: a device, the libraries of its kernels, and the
// communicator that reaches the memory of the ranks' devices.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "engine/ops/ops.h"
#include "engine/runtime/device.h"
#include "launch/config/config.h"

namespace recollect {

class Backend {
 public:
  // Collective over `world`, which must outlive it. Error kConfiguration where the backend, or a device of
  // it, is missing.
  Backend(const Config& config, Communicator& world);
  ~Backend();

  Device& device() const { return *device_; }
  const RegisterKernels& kernels() const { return kernels_; }  // this must outlive them
  Communicator* world() const { return world_.get(); }         // null where `world` itself reaches the values

  // Collective. Runs `prepare`, which times and chooses algorithms, so that all ranks choose what the first
  // one does: they would not agree to the last bit otherwise.
  void choose_alike(Communicator& world, const std::function<void()>& prepare) const;

 private:
  struct FreeLibraries {
    void operator()(cuda::Libraries* libraries) const;
  };

  std::unique_ptr<Device> device_;
  std::unique_ptr<cuda::Libraries, FreeLibraries> libraries_;  // null on CPUs
  RegisterKernels kernels_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace recollect
