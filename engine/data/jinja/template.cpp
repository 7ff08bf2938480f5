#include "engine/data/jinja/template.h"

#include <algorithm>

#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/parser.h"

namespace recollect::jinja {
namespace {

bool holds_generation(const Nodes& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const NodePtr& node) {
    return node && (node->kind == Node::Kind::kGeneration || holds_generation(node->body) ||
                    holds_generation(node->otherwise));
  });
}

}  // namespace

Template::Template(std::string_view source, std::string name)
    : name_(std::move(name)),
      body_(parse_template(source, name_)),
      has_generation_(holds_generation(body_)) {}

Rendered Template::render(const Dict& variables, int64_t now) const {
  Interpreter interpreter(name_, now);
  Rendered rendered{.text = interpreter.run(body_, variables), .generations = {}};
  for (const Interpreter::Span& span : interpreter.generations())
    rendered.generations.push_back({span.begin, span.end});
  rendered.has_date = interpreter.asked_for_date;
  return rendered;
}

}  // namespace recollect::jinja
