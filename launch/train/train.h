// `recollect train`: one rank of it, from a communicator to the last line of the report.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"
#include "launch/config/config.h"
#include "launch/report/report_signal.h"
#include "launch/report/start_times.h"
#include "launch/train/preemption.h"

namespace recollect {

// Finds the rates by which times are told, on all ranks of a resolved run whose threads are agreed on
// (launch/doctor/machine_rates.h).
using LearnRates = std::function<std::string(Config& config, Communicator& world)>;

// Writes config.resolved.yaml, plan.yaml, metrics.jsonl, memory.rankN.json, train_results.json and, when
// asked, the model into config.output_dir. Whenever `signal` has come, the rank prints its own report after
// the step in progress. Once any rank was preempted, all end behind the step in progress, with a snapshot of it where the
// run saves any, and no model: kPreempted, else kOk.
// `clock`: since when the run has begun.
// Where it fails, `ranks` of this process hear of it, and status.<rank>.json says how.
ExitCode train_rank(Config config, Communicator& world, const ReportSignal& signal, Preemption& preemption,
                    RankWatch& ranks, StartClock clock = {}, const LearnRates& learn_rates = {});

}  // namespace recollect
