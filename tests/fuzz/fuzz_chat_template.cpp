// A chat template: what is accepted writes a small conversation the same twice, or refuses it; none runs for ever.
#include "engine/data/jinja/json_text.h"
#include "engine/data/jinja/template.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const jinja::Value variables = jinja::from_json(
      R"({"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "<c>", "tool_calls": [{"n": 1.5}]}],)"
      R"( "tools": [{"name": "f", "parameters": {"x": [1, null, true]}}], "bos_token": "<s>", "add_generation_prompt": true})");
  std::string first, second;
  const bool accepted = fuzz::accepts([&] {
    const jinja::Template made(text, "template");
    first = made.render(*variables.dict(), 0).text;
  });
  if (!accepted) return;
  fuzz::accepts([&] { second = jinja::Template(text, "template").render(*variables.dict(), 0).text; });
  fuzz::expect(first == second, "a template that writes another text the second time");
}
