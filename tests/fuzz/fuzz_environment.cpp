// The variables of launchers, NAME=value a line: a rank that is believed lies inside its world and its node.
#include <map>

#include "comm/store/environment.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  std::map<std::string, std::string, std::less<>> variables;
  while (!text.empty()) {
    std::string_view line = fuzz::take_until(text, '\n');
    const std::string_view name = fuzz::take_until(line, '=');
    if (name == "RECOLLECT_STORE_TOKEN_FILE") continue;  // no file of ours
    variables[std::string(name)] =
        name == "MASTER_ADDR" ? "10.0.0.1" : line;  // and nobody is asked for names
  }
  const EnvironmentLookup lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  fuzz::accepts([&] {
    const auto who = discover_ranks(lookup);
    if (!who) return;
    fuzz::expect(who->rank >= 0 && who->rank < who->size && who->size <= kMostRanks,
                 "a rank outside its world");
    fuzz::expect(who->local_rank >= 0 && who->local_rank < who->local_size && who->local_size <= who->size,
                 "a rank outside its node");
    const StoreEnvironment store = find_store(*who, lookup);
    fuzz::expect(!store.place.ports.empty(), "a store without a port");
  });
}
