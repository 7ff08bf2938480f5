// A model as everybody outside its family sees it: inputs by name, parameters, the value that a task reads,
// and how its tensors are called in files. Which op computes what is the family's business.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"
#include "parallel/parameter.h"

namespace recollect {

// What a program is made for: so many samples of one length, a sequence each or, packed, several.
struct BatchShape {
  int64_t samples = 1;
  int64_t sequence_length = 1;
  int64_t most_logits = 1024;    // rows of logits that exist at a time
  int64_t packed_sequences = 0;  // the most that a packed batch has, where a task looks at each as a whole
  // Tokens of a key/value cache behind which these are read, to continue a sequence; 0: they are trained on.
  int64_t cache_capacity = 0;
  auto operator<=>(const BatchShape&) const = default;  // NOLINT(modernize-use-nullptr): the default's own
};

// How a family's files name what the parameters do not say.
struct FileNames {
  std::string prefix;  // of the tensors that this program writes; the files of others may lack it
  // Whether it stands before this name; heads beside a trunk have none.
  bool (*has_prefix)(std::string_view name) = [](std::string_view) { return true; };
  // What old files call it; "": the same.
  std::string (*older_name)(std::string_view name) = [](std::string_view) { return std::string(); };
  // Of what stands in files of others and is no parameter: a tied head, buffers. Names come without the
  // prefix.
  bool (*passed_over)(std::string_view name) = [](std::string_view) { return false; };
  // Of these, what is one parameter under a second name, such as a tied head, and that parameter.
  std::vector<std::pair<std::string, std::string>> tied = {};

  std::string in_file(const std::string& name) const { return has_prefix(name) ? prefix + name : name; }
};

struct Model {
  std::map<std::string, ValueId, std::less<>> inputs =
      {};                 // fields of a batch, such as "ids": [samples, sequence] i32
  ValueId scale = kNone;  // input [columns] f64: what each target of a column weighs in the step's loss
  ValueId loss = kNone;   // [1] f64 accumulator: this data rank's share of the step's mean loss
  // What the loss is made of, as task.h has it, whole on every rank: a value of forward, which still holds it when an
  // evaluation's forward is done. kNone: a language model's, which never exist at once. Where a sequence is continued
  // there is neither scale nor loss, but [vocabulary, padded] S: the logits of what follows the last token.
  ValueId logits = kNone;
  std::vector<Parameter> parameters = {};
  FileNames files = {};

  ValueId input(std::string_view name) const;  // Error kInternal where there is none
};

}  // namespace recollect
