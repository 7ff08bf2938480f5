// `recollect config`: a configuration and its keys, for people and for editors. Trains nothing and reads no
// data.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable config_show_options();
void config_show_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

void config_import_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);
void config_schema_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);
void config_reference_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
