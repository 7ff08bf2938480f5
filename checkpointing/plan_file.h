// Plans as files: what `to_yaml` writes and people edit. For every activation that backward needs, the last
// line whose pattern matches its name decides; a value that no line names is saved on the device.
//
//   replay: segment     # or bisect, nothing, binomial: what a recomputation leaves behind; segment where absent
//   values:
//     layer*: recompute                          # * stands for any text
//     layer*/attn/residual: device
//     layer0/attn/residual: partitioned+host+disk    # or one or two of these
#pragma once

#include <string>
#include <string_view>

#include "checkpointing/plan.h"
#include "checkpointing/residency.h"
#include "comm/communicator.h"

namespace recollect {

// For the values of this differentiated graph. Error kConfiguration, at file:line:column, for whatever cannot
// be meant: unknown keys and words, a pattern that matches nothing, `partitioned` where nothing that matches
// is the same on `tensor_size` > 1 ranks. What a pattern matches beside replicated values is not partitioned,
// but counted in `divided_already`.
Plan read_plan(const std::string& path, const Graph& graph, const SavedActivations& saved, int tensor_size,
               int64_t* divided_already = nullptr);

// The same for a text; `name` stands for the file's name in messages.
Plan read_plan_text(const std::string& name, std::string_view text, const Graph& graph,
                    const SavedActivations& saved, int tensor_size, int64_t* divided_already = nullptr);

// Collective. Error kRanksDisagree, naming the values, where the ranks hold different plans or would move
// values at different times; or where attention's backward adds up in the order of keys on some alone.
void check_plans_agree(const Plan& plan, const ResidencySettings& moves, Communicator& communicator,
                       bool keys_in_order = false);

}  // namespace recollect
