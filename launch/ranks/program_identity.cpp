#include "launch/ranks/program_identity.h"

#include <gnu/libc-version.h>
#include <link.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/core/hash.h"
#include "engine/ops/cpu_level.h"

namespace recollect {

namespace {

// A hash of samples of the mapped code. Samples suffice, because a change of the compiler or its options
// changes most of the code.
uint64_t hash_sample(const char* code, std::size_t size) {
  constexpr std::size_t kBlock = 4 << 10, kBlocks = 256;
  std::vector<uint64_t> hashes;
  const std::size_t stride = std::max(kBlock, size / kBlocks);
  for (std::size_t at = 0; at < size; at += stride)
    hashes.push_back(hash_bytes(code + at, std::min(kBlock, size - at)));
  return hash_bytes(hashes.data(), hashes.size() * sizeof(uint64_t));
}

std::string identity_of(const dl_phdr_info& module) {
  std::string text;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || (segment.p_flags & PF_W)) continue;
    const auto* code = reinterpret_cast<const char*>(module.dlpi_addr + segment.p_vaddr);
    text += fmt::format("{}{} bytes of code, {:016x}", text.empty() ? "" : "; ", segment.p_memsz,
                        hash_sample(code, segment.p_memsz));
  }
  return text;
}

// libm chooses among its variants by this at run time, independent of the flags of this build.
bool has_fused_multiply_add() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

int add_module(dl_phdr_info* module, std::size_t, void* to) {
  auto& identity = *static_cast<std::map<std::string, std::string>*>(to);
  const std::string_view path = module->dlpi_name;
  const std::string name(path.substr(path.rfind('/') + 1));
  if (identity.empty()) identity["program"] = identity_of(*module);  // the first module is the program
  if (name.starts_with("libm.")) identity[name] = identity_of(*module);
  return 0;
}

}  // namespace

std::map<std::string, std::string> program_identity(CpuIsa isa) {
  std::map<std::string, std::string> identity;
  dl_iterate_phdr(add_module, &identity);
  identity["instruction set"] = cpu_level(isa).instruction_set();
  identity["fused multiply-add"] = has_fused_multiply_add() ? "yes" : "no";
  return identity;
}

std::string mathematics_library() { return fmt::format("libm of glibc {}", gnu_get_libc_version()); }

}  // namespace recollect
