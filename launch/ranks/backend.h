// The backend of a rank, as its configuration selects it: a device, the libraries of its kernels, and the
// communicator that can access the memory of the ranks' devices.
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
  // Collective over `world`, which must outlive this object. Throws kConfiguration if the backend, or a
  // device for it, is missing.
  Backend(const Config& config, Communicator& world);
  ~Backend();

  Device& device() const { return *device_; }
  const RegisterKernels& kernels() const { return kernels_; }  // valid as long as this object
  Communicator* world() const { return world_.get(); }         // null if the ranks' own `world` suffices

  // Collective. Runs `prepare`, which times algorithms and chooses among them, and makes all ranks use the
  // choices of the first rank. Other choices would give other last bits.
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
