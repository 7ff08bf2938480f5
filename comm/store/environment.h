// Where the processes of a run meet without MPI, according to the environment.
//
// MASTER_ADDR and MASTER_PORT name the place. With RECOLLECT_STORE=launcher, our launcher listens there.
// Otherwise rank 0 does, and the others retry until it answers.
//
// Stock torchrun is a special case: its agent on node 0 occupies MASTER_PORT for a store with a protocol of
// its own, and sets TORCHELASTIC_USE_AGENT_STORE=True (2.15: with both the static rendezvous and c10d). Rank
// 0 then takes the first free port of a fixed list derived from the run id and MASTER_PORT, and the others
// try the ports of that list. A store sends its greeting first, and its callers then prove that they belong
// to the run; so trying a port of another program disturbs no one, and a store of the wrong run is noticed.
// The list lies below the ports that the system assigns to outgoing connections.
#pragma once

#include <string>

#include "comm/bootstrap.h"
#include "comm/store/client.h"

namespace recollect {

struct StoreEnvironment {
  StorePlace place = {};
  std::string token = {};  // empty: anyone who reaches the port may connect
  bool hosted_by_launcher = false;
  std::string attempt = {};  // distinguishes the restarts that one launcher's store sees
};

// Throws Error kConfiguration if MASTER_ADDR or MASTER_PORT is missing or invalid, or if other users can read
// the token file.
StoreEnvironment find_store(const RankEnvironment& who, const EnvironmentLookup& lookup);
StoreEnvironment find_store(const RankEnvironment& who);  // from this process's environment

// Returns the token from RECOLLECT_STORE_TOKEN_FILE, which only its owner may be able to read, or from
// RECOLLECT_STORE_TOKEN; empty if neither is set.
std::string read_store_token(const EnvironmentLookup& lookup);

// For the process that hosts a store: makes a new token, and writes it to a file of mode 0600. Throws Error
// kStorage.
std::string make_store_token();
void write_store_token(const std::string& path, const std::string& token);

}  // namespace recollect
