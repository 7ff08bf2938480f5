// `recollect predict`: what a trained model says of samples whose labels nobody needs to know.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable predict_options();
void predict_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
