#include "launch/cli/version.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/communicator_kind.h"
#include "comm/mpi.h"
#include "engine/ops/backend_kind.h"
#include "engine/ops/cpu_level.h"
#include "engine/ops/cuda/versions.h"

namespace recollect {

namespace {

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string backends() {
  const std::string cuda = cuda::versions();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kSpellings<BackendKind>.size(); ++i) {
    const bool is_cuda = static_cast<BackendKind>(i) == BackendKind::kCuda;
    if (!is_cuda || !cuda.empty())
      names.push_back(fmt::format("{}{}", kSpellings<BackendKind>[i], is_cuda ? " (" + cuda + ")" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string instructions() {
  std::vector<std::string_view> kernels;
  for (const CpuLevel& level : cpu_levels()) kernels.push_back(name_of(level.isa));
  return fmt::format("compiled for {}, kernels for {}; this processor runs {}", name_of(program_isa()),
                     fmt::join(kernels, ", "), name_of(cpu_level().isa));
}

std::string communicators() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kSpellings<CommunicatorKind>.size(); ++i) {
    const auto kind = static_cast<CommunicatorKind>(i);
    if (kind == CommunicatorKind::kAuto) continue;
    const std::string more = kind == CommunicatorKind::kLocal ? " (shared memory)"
                             : kind == CommunicatorKind::kMpi ? " (" + mpi_library() + ")"
                                                              : "";
    names.push_back(fmt::format("{}{}", name_of(kind), more));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string version_text(std::string_view commit) {
  return fmt::format(
      "recollect {}, commit {}\ncompiler       {}\nbackends       {}\ninstructions   {}\ncommunicators  {}\n",
      RECOLLECT_VERSION, commit, compiler(), backends(), instructions(), communicators());
}

}  // namespace recollect
