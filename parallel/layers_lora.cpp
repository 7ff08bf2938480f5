// Adapters beside linear layers, cut over tensor ranks so that no collective is added. Where the weight has this rank's
// rows, every rank has A and makes all of x A^T, and B has this rank's rows: A's gradient is a part of a sum, and what
// flows back into x joins the sum over ranks that the layer makes. Where the weight has this rank's columns, A has them
// too, x A^T and all that follows is a part of the sum that the layer makes, and B's gradient is a part of one.
#include <cmath>

#include "parallel/layers.h"
#include "parallel/lora.h"

namespace recollect {

namespace {

constexpr int64_t kFirstAdapterSite =
    128;  // of a layer's random ops: those of the model have the same with adapters or not

}  // namespace

void LayerBuilder::adapt(const LoraSettings& lora, const FileNames& files) {
  if (lora.adapts()) lora_ = std::make_shared<const AdapterRules>(lora, files);
}

ValueId LayerBuilder::with_adapters(const std::string& name, const LinearOptions& options,
                                    const Adapted& layer) {
  if (!lora_) return layer.y;
  const bool divided = layer.split == Parameter::Split::kRows;
  const int64_t ranks = divided ? layout_.tensor_size / layer.repeats : 1;  // that have different rows
  std::vector<AdaptedModule> modules;
  if (options.weight_blocks.empty())
    modules.push_back({.name = std::string(module_of(options.weight)),
                       .out = graph_.value(layer.y).shape[1] * ranks,
                       .blocks = options.blocks,
                       .interleaved = options.interleaved});
  int64_t first = 0;
  for (std::size_t i = 0; i < options.weight_blocks.size(); first += options.blocks[i++] / ranks)
    modules.push_back({.name = std::string(module_of(options.weight_blocks[i])),
                       .out = options.blocks[i],
                       .first_column = first});
  Adapted adapted = layer;
  for (const AdaptedModule& module : modules)
    if (lora_->is_target(module.name)) adapted.y = add_adapter(name, module, adapted);
  return adapted.y;
}

ValueId LayerBuilder::adapter_dropout(const std::string& name, const Adapted& layer) {
  const double dropout = lora_->settings().dropout;
  if (dropout == 0 || continues()) return layer.x;
  const int64_t columns = graph_.value(layer.x).shape[1], site = site_;
  Attributes attributes = dropout_attributes(dropout, layer.rows);
  site_ = site;
  attributes.set("site", kFirstAdapterSite + adapter_sites_++);
  if (layer.split != Parameter::Split::kNone) attributes.set("first_token", int64_t{0});  // x has all of them
  if (layer.split == Parameter::Split::kColumns && parallel()) {
    attributes.set("first_column", layout_.tensor_rank * columns);
    attributes.set("all_columns", layout_.tensor_size * columns);
  }
  return emit(name + "/dropout", "dropout", std::move(attributes), {layer.x});
}

ValueId LayerBuilder::add_adapter(const std::string& name, const AdaptedModule& module,
                                  const Adapted& layer) {
  using Split = Parameter::Split;
  const bool of_rows = layer.split == Split::kRows, of_columns = layer.split == Split::kColumns;
  const std::string path = name + "/" + module.name.substr(module.name.rfind('.') + 1);
  const int64_t in = graph_.value(layer.x).shape[1] * (of_columns ? layout_.tensor_size : 1);
  const bool part_of_tokens = layer.split == Split::kNone && layer.rows == Rows::kTokens && divides_tokens();
  const int64_t rank = lora_->rank_of(module.name);
  const ValueId a = parameter(
                    {.name = module.name + ".lora_A.weight",
                     .rows = rank,
                     .columns = in,
                     .split = of_columns ? Split::kColumns : Split::kNone,
                     .partial_gradient = part_of_tokens || (of_rows && parallel()),
                     .init = Parameter::Init::kUniform,  // Kaiming's, with the slope that PEFT takes
                     .init_std = 1 / std::sqrt(static_cast<double>(in)),
                     .adapter = true}),
                b = parameter({.name = module.name + ".lora_B.weight",
                               .rows = module.out,
                               .columns = rank,
                               .split = of_rows ? Split::kRows : Split::kNone,
                               .blocks = module.blocks,
                               .interleaved = module.interleaved,
                               .partial_gradient = part_of_tokens || (of_columns && parallel()),
                               .repeats = layer.repeats,
                               .init = Parameter::Init::kZero,
                               .adapter = true});
  const ValueId low = emit(path + "/lora_A", "linear", {}, {adapter_dropout(path, layer), a}),
                high = emit(path + "/lora_B", "linear", {}, {low, b});
  if (of_columns) graph_.value(high).placement = part_of_ranks();
  return emit(path + "/lora", "add_scaled_columns",
              {{"first_column", module.first_column}, {"scale", lora_->scale_of(module.name)}},
              {layer.y, high});
}

}  // namespace recollect
