// Defines Muon's own ops: the direction of a matrix, a combination of matrices, and the update.
#include "engine/ops/muon.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

void check_rows(const OpView& v, const Value& gradient) {
  const MuonSettings s(v.attributes());
  check(gradient.shape.rank() == 2 && s.rows > 0 && s.first_row >= 0 &&
            s.first_row + s.rows <= gradient.shape[0],
        v, "the parameter has no such rows");
}

std::vector<OutputSpec> infer_direction(const OpView& v) {
  const Value& gradient = v.in(1);
  check_rows(v, gradient);
  v.attributes().real("momentum");
  return {like(gradient, "state0"),
          {.shape = {v.attributes().integer("rows"), gradient.shape[1]},
           .dtype = gradient.dtype,
           .suffix = "direction",
           .category = Category::kWorkspace},
          {.shape = {1}, .dtype = DType::kF64, .suffix = "square", .category = Category::kWorkspace}};
}

std::vector<OutputSpec> infer_combine(const OpView& v) {
  v.attributes().real("alpha");
  if (v.has_input(1)) {
    v.attributes().real("beta");
    check_shape(v, v.in(1), v.in(0).shape);
  }
  return {{.shape = v.in(0).shape, .dtype = v.in(0).dtype, .category = Category::kWorkspace}};
}

std::vector<OutputSpec> infer_muon(const OpView& v) {
  const Value& master = v.out(0);
  check_rows(v, master);
  check_shape(v, v.in(2), {v.attributes().integer("rows"), master.shape[1]});
  v.attributes().real("weight_decay");
  std::vector<OutputSpec> specs{like(master, "state0")};
  if (v.attributes().integer("cast")) {
    check_shape(v, v.out(1), master.shape);
    specs.push_back(like(v.out(1), "state1"));
  }
  return specs;
}

}  // namespace

void register_muon(OpRegistry& registry) {
  registry.add({.name = "muon_direction",
                .infer = infer_direction,
                .cost = [](const OpView& v) { return streaming_cost(v, 6); },
                .measured_as = "sgd"});
  registry.add({.name = "combine",
                .infer = infer_combine,
                .cost = [](const OpView& v) { return streaming_cost(v, 3); },
                .measured_as = "add"});
  registry.add({.name = "muon",
                .infer = infer_muon,
                .cost = [](const OpView& v) { return streaming_cost(v, 4); },
                .measured_as = "sgd"});
}

}  // namespace recollect::ops
