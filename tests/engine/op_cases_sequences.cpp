// The part of the table about sequences as wholes.
#include "tests/engine/op_cases.h"

namespace recollect::test {

// Positions that count tokens of an id, of whole samples and of packed ones; and means over samples, or over sequences.
void add_sequence_cases(std::vector<OpCase>& cases) {
  struct Part {
    const char* name;
    int64_t samples, length, width, first, tokens, sequences;  // sequences: 0: they are the samples
  };
  for (const auto& [name, samples, length, width, first, tokens, sequences] :
       {Part{"whole", 3, 6, 7, 0, 18, 0}, Part{"second_half", 4, 6, 7, 12, 12, 0},
        Part{"between", 2, 8, 5, 4, 4, 0}, Part{"large", 9, 65, 96, 0, 585, 0},
        Part{"packed", 3, 41, 24, 0, 123, 9}, Part{"packed_part", 2, 40, 24, 20, 40, 5}}) {
    const Shape all{samples, length};
    const bool packed = sequences > 0;
    const ValueSpec ids{
        .name = "ids", .shape = all, .storage = Storage::kI32, .fill = Fill::kIds, .limit = 3},
        places{.name = "places",
               .shape = all,
               .storage = Storage::kI32,
               .fill = Fill::kPositions,
               .offset = 1,
               .limit = 7},
        lengths{.name = "lengths",
                .shape = {samples},
                .storage = Storage::kI32,
                .fill = Fill::kLengths,
                .offset = 1,
                .limit = length},
        which{.name = "which",
              .shape = {sequences},
              .storage = Storage::kI32,
              .fill = Fill::kPlaces,
              .limit = samples * length};
    OpCase positions{.name = std::string("token_positions_") + name,
                     .kind = "token_positions",
                     .inputs = {ids},
                     .attributes = {{"padding_id", int64_t{1}}}};
    if (packed) positions.inputs.push_back(places);
    cases.push_back(positions);
    Attributes attributes{{"samples", samples}, {"sequence_length", length}, {"first_token", first}};
    OpCase mean{.name = std::string("mean_tokens_") + name,
                .kind = "mean_tokens",
                .inputs = {activation("x", {tokens, width}), packed ? which : lengths},
                .attributes = attributes};
    // Numbers that are no beginnings of sequences have no gradient that is theirs alone.
    if (!packed) mean.differentiable = {0};
    if (packed) mean.inputs.push_back(places);
    cases.push_back(mean);
    mean.name = std::string("mean_tokens_backward_") + name;
    mean.kind += "_backward";
    mean.differentiable.clear();
    mean.inputs[0] = activation("dy", {packed ? sequences : samples, width});
    mean.attributes.set("rows", tokens);
    cases.push_back(mean);
  }
}

}  // namespace recollect::test
