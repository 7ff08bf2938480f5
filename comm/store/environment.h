// Where the processes of a run meet without MPI, as the environment says.
//
// MASTER_ADDR and MASTER_PORT name the place. With RECOLLECT_STORE=launcher, our launcher listens there.
// Otherwise rank 0 does, and the others call until it answers.
//
// Stock torchrun is special: its agent on node 0 itself holds MASTER_PORT, for a store with a protocol of its
// own, and says so with TORCHELASTIC_USE_AGENT_STORE=True (2.15: both the static rendezvous and c10d). There,
// rank 0 takes the first free port of a fixed list that follows from the run id and MASTER_PORT, and the
// others ask along that list. A store greets first and its callers then prove that they belong to the run, so
// asking at a port of somebody else disturbs nobody and finding the wrong run is noticed. The list lies below
// the ports that the system gives to outgoing connections.
#pragma once

#include <string>

#include "comm/bootstrap.h"
#include "comm/store/client.h"

namespace recollect {

struct StoreEnvironment {
  StorePlace place = {};
  std::string token = {};  // empty: anybody who reaches the port may come in
  bool hosted_by_launcher = false;
  std::string attempt = {};  // tells the restarts apart that one launcher's store sees
};

// Error kConfiguration when MASTER_ADDR or MASTER_PORT is missing or makes no sense, and for a token file
// that others can read.
StoreEnvironment find_store(const RankEnvironment& who, const EnvironmentLookup& lookup);
StoreEnvironment find_store(const RankEnvironment& who);  // from this process's environment

// RECOLLECT_STORE_TOKEN_FILE, which nobody but its owner may read, or RECOLLECT_STORE_TOKEN; empty when
// neither is set.
std::string read_store_token(const EnvironmentLookup& lookup);

// For who hosts a store: a new token, and a file of mode 0600 that holds it. Error kStorage.
std::string make_store_token();
void write_store_token(const std::string& path, const std::string& token);

}  // namespace recollect
