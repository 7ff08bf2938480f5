#include "checkpointing/planner/chain_costs.h"

namespace recollect {

ChainCosts::ChainCosts(const Chain& chain) {
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const ChainLayer& layer = chain.layers[i];
    const ChainLayer* next = i + 1 < chain.layers.size() ? &chain.layers[i + 1] : nullptr;
    std::vector<Option>& options = layers.emplace_back();
    for (const ChainOption& from : layer.options) {
      Option o{.held = from.held, .host = from.host, .disk = from.disk, .ahead = from.ahead};
      o.back = add_bytes(add_bytes(from.held, from.arrives), layer.backward_bytes);
      o.alone = std::max(layer.forward_bytes, o.back);
      if (next)
        o.next = add_bytes(next->forward_bytes, from.leaves);
      else
        o.alone = std::max(o.alone, add_bytes(from.held, chain.head_bytes));
      o.backward = layer.backward + from.seconds;
      o.in = next ? from.in : 0;
      o.seconds = layer.forward + o.backward + std::max(0.0, from.out - (next ? next->forward : 0));
      if (!next) o.seconds += from.in;
      options.push_back(o);
    }
  }
}

}  // namespace recollect
