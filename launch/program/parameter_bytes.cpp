#include "launch/program/parameter_bytes.h"

#include <fmt/format.h>

namespace recollect {

ParameterBytes parameter_bytes(const Model& model, const Graph& graph, int tensor_size) {
  ParameterBytes sum;
  double parameters = 0;
  const auto bytes_of = [&](ValueId id) {  // 0 for values of only a part of the step
    return id == kNone || !graph.value(id).persistent ? 0.0 : static_cast<double>(graph.value(id).bytes());
  };
  for (const Parameter& parameter : model.parameters) {
    parameters +=
        static_cast<double>(parameter.local_rows(tensor_size) * parameter.local_columns(tensor_size));
    sum.weights += bytes_of(parameter.value);
    if (parameter.master != parameter.value) sum.masters += bytes_of(parameter.master);
    const double whole = bytes_of(parameter.gradient);
    sum.gradients += whole > 0 ? whole : bytes_of(parameter.gradient_part);
    for (const Parameter::State& state : parameter.states) sum.states += bytes_of(state.value);
  }
  for (double* const bytes : {&sum.weights, &sum.masters, &sum.gradients, &sum.states}) *bytes /= parameters;
  return sum;
}

std::string parameter_bytes_text(const ParameterBytes& bytes) {
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  std::string text = "bytes a parameter: weights " + number(bytes.weights);
  if (bytes.masters > 0)
    text += fmt::format(" + masters {} = {}", number(bytes.masters), number(bytes.weights + bytes.masters));
  return text + fmt::format(", gradients {}, states {}: {}\n", number(bytes.gradients), number(bytes.states),
                            number(bytes.total()));
}

}  // namespace recollect
