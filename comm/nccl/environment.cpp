#include "comm/nccl/environment.h"

#include <algorithm>

#include "comm/nccl/api.h"

namespace recollect::nccl {

std::vector<Variable> nccl_environment(const Circumstances& circumstances) {
  std::vector<Variable> variables = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}, {"NCCL_NVLS_ENABLE", "0"}};
  if (circumstances.ranks_per_device <= 1) return variables;
  const auto add = [&](const char* name, const std::string& value) { variables.push_back({name, value}); };
  if (circumstances.version >= kMultiRankVersion) {
    add("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    add("NCCL_MAX_CTAS", "2");
    return variables;
  }
  add("NCCL_HOSTID", "recollect-rank-" + std::to_string(circumstances.rank));
  add("NCCL_NET", "Socket");
  add("NCCL_IB_DISABLE", "1");
  if (circumstances.one_node) add("NCCL_SOCKET_IFNAME", "lo");
  add("NCCL_MNNVL_ENABLE", "0");
  add("NCCL_ALGO", "Ring");
  add("NCCL_PROTO", "Simple");
  add("NCCL_MAX_CTAS", "2");
  return variables;
}

std::vector<Variable> not_yet_set(std::vector<Variable> variables,
                                  const std::function<const char*(const char* name)>& lookup) {
  std::erase_if(variables,
                [&](const Variable& variable) { return lookup(variable.name.c_str()) != nullptr; });
  return variables;
}

std::string to_string(const std::vector<Variable>& variables) {
  std::string text;
  for (const Variable& variable : variables)
    text += (text.empty() ? "" : " ") + variable.name + "=" + variable.value;
  return text;
}

}  // namespace recollect::nccl
