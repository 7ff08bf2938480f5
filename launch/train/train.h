// One rank of `recollect train`, from its communicator to the last line of the report.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"
#include "launch/config/config.h"
#include "launch/report/report_signal.h"
#include "launch/report/start_times.h"
#include "launch/train/preemption.h"

namespace recollect {

// Measures or loads the rates for printed times, on all ranks of a resolved run that have agreed on threads
// (launch/doctor/machine_rates.h).
using LearnRates = std::function<std::string(Config& config, Communicator& world)>;

// Writes config.resolved.yaml, plan.yaml, metrics.jsonl, memory.rankN.json, train_results.json and, when
// asked, the model into config.output_dir. When `signal` has come, the rank prints its own report after the
// current step. After a preemption of any rank, all ranks end after the current step with a snapshot of it,
// if the run saves any, and without a model. Returns kPreempted then, otherwise kOk. `clock`: since when the
// run has begun. On a failure it tells `ranks` of this process, and status.<rank>.json says how it failed.
ExitCode train_rank(Config config, Communicator& world, const ReportSignal& signal, Preemption& preemption,
                    RankWatch& ranks, StartClock clock = {}, const LearnRates& learn_rates = {});

}  // namespace recollect
