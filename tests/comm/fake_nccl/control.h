// How tests make the fake NCCL misbehave: the library exports one of these as fake_nccl_control. It is per
// process, and so shared by ranks that are threads.
#pragma once

#include <atomic>
#include <cstdint>

struct FakeNcclControl {
  std::atomic<int> version{23007};
  std::atomic<int> unique_id_result{0};  // of ncclGetUniqueId
  std::atomic<bool> init_never{false};   // connecting never finishes
  std::atomic<bool> split_never{false};
  std::atomic<int> polls{0};       // how often a call, once made, is still in progress when asked after
  std::atomic<int> fail_rank{-1};  // of the world: its calls give fail_result at once
  std::atomic<int> fail_result{0};
  std::atomic<int> async_rank{-1};    // its collectives never finish, and the library reports fail_result
  std::atomic<int> window_result{0};  // of ncclCommWindowRegister, once it is settled
  std::atomic<bool> finalize_never{false};
  std::atomic<uint64_t> capture{0};  // that streams are in, for the rules of gathers by copy engines

  // What happened.
  std::atomic<int> aborts{0}, destroys{0}, finalizes{0};
  std::atomic<int> windows{0};  // registered now
  std::atomic<int> spoilt_windows{
      0};  // given back behind their memory, or before what was recorded with them
  // By symmetric kernels, in the window of their communicator; unless all ranks have them at the same places there, they
  // fail.
  std::atomic<int> symmetric_sums{0}, symmetric_gathers{0}, symmetric_scatters{0};
  std::atomic<int> gathers_by_copy{0};  // all-gathers of a communicator that prefers copy engines
  std::atomic<int> kernels_beside{0};   // all its other collectives
  std::atomic<int> last_blocking{-1};   // of the latest configuration
  std::atomic<int> last_max_ctas{0};    // and as it was given, kUndefined where it was not
  std::atomic<uint64_t> memory{0};      // what ncclCommMemStats says of every communicator
};
