#include "launch/ranks/same_configuration.h"

#include "comm/agree.h"
#include "launch/config/read.h"

namespace recollect {

void check_ranks_agree(const Config& config, Communicator& communicator) {
  check_texts_agree(flatten(config), "configurations",
                    "start every rank with the same file and the same overrides", communicator);
}

}  // namespace recollect
