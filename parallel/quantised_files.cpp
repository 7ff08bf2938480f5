#include "parallel/quantised_files.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "parallel/lora.h"

namespace recollect {

namespace {

constexpr const char* kAbsmax = ".absmax";

std::string state_name_of(const std::string& weight, WeightFormat format) {
  return fmt::format("{}.quant_state.bitsandbytes__{}", weight, name_of(format));
}
std::string beside(const std::string& weight, const char* name) {
  return fmt::format("{}.{}", module_of(weight), name);
}

std::vector<float> table_of(WeightFormat format) {
  std::vector<float> table(16);
  for (int code = 0; code < 16; ++code) table[static_cast<std::size_t>(code)] = weight_entry(format, code);
  return table;
}
std::vector<float> map_of_sizes() {
  constexpr DynamicMap kSigned = DynamicMap::make(true);
  return {kSigned.entries.begin(), kSigned.entries.end()};
}

// Reads of a file what must be there, and be so.
class Reader {
 public:
  Reader(const SafetensorsSet& source, const std::string& weight, const StoredRow& row, int64_t rows)
      : source_(source),
        weight_(weight),
        tensor_{.format = row.format, .nested = row.nested, .rows = rows, .columns = row.columns} {}

  QuantisedTensor read() {
    const bool int8 = tensor_.format == WeightFormat::kInt8;
    const std::string format = source_.find(beside(weight_, "SCB")) ? "int8" : format_of_4_bits();
    if (format != name_of(tensor_.format))
      refuse(fmt::format("is stored as {}, and lora.base is {}", format, name_of(tensor_.format)),
             fmt::format("write lora.base: {}, or give a folder of whole weights", format));
    tensor_.codes = bytes(weight_, static_cast<std::size_t>(tensor_.rows * tensor_.columns / (int8 ? 1 : 2)));
    if (int8)
      tensor_.sizes = floats(beside(weight_, "SCB"), tensor_.rows);
    else
      read_sizes();
    return std::move(tensor_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(ExitCode::kInput, fmt::format("{} {}", weight_, what), hint);
  }

  std::string format_of_4_bits() const {
    for (const WeightFormat format : {WeightFormat::kNF4, WeightFormat::kFP4})
      if (source_.find(state_name_of(weight_, format))) return std::string(name_of(format));
    refuse("has .absmax and no .quant_state.bitsandbytes__nf4 or __fp4",
           "save the model again with save_pretrained");
  }

  std::vector<uint8_t> bytes(const std::string& name, std::size_t count) const {
    const TensorEntry* const entry = source_.find(name);
    if (!entry || entry->bytes != count)
      refuse(fmt::format("needs {} with {} bytes, and the file has {}", name, count,
                         entry ? std::to_string(entry->bytes) : "none"),
             "the folder is of another model, or damaged: check model.* against the config.json beside it");
    std::vector<uint8_t> all(count);
    source_.read_bytes(name, std::as_writable_bytes(std::span(all)));
    return all;
  }

  std::vector<float> floats(const std::string& name, int64_t count) const {
    const TensorEntry* const entry = source_.find(name);
    if (!entry || entry->elements() != count || entry->dtype != DType::kF32)
      refuse(fmt::format("needs {} with {} numbers of F32", name, count),
             "the folder is of another model, or damaged: check model.* against the config.json beside it");
    std::vector<float> all(static_cast<std::size_t>(count));
    source_.read_bytes(name, std::as_writable_bytes(std::span(all)));
    return all;
  }

  void check_table(const std::string& name, const std::vector<float>& own) const {
    if (floats(name, static_cast<int64_t>(own.size())) != own)
      refuse(fmt::format("is of a table of its own in {}", name),
             "only bitsandbytes' tables of nf4 and fp4 and its dynamic map are known here");
  }

  void read_sizes() {
    const std::string name = state_name_of(weight_, tensor_.format);
    const std::vector<uint8_t> text = bytes(name, source_.find(name)->bytes);
    const auto state = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
    const auto number = [&](const char* key) {
      const bool there = state.is_object() && state.contains(key) && state[key].is_number();
      return there ? state[key].get<double>() : -1.0;
    };
    const bool nested = source_.find(weight_ + ".nested_absmax") != nullptr;
    if (nested != tensor_.nested)
      refuse(fmt::format("is {}quantised twice, and lora.double_quant is {}", nested ? "" : "not ",
                         tensor_.nested),
             fmt::format("write lora.double_quant: {}", nested));
    if (number("blocksize") != kWeightBlock || (nested && number("nested_blocksize") != kNestedBlock))
      refuse(fmt::format("has blocks of {} numbers", number("blocksize")),
             fmt::format("only blocks of {}, and of {} sizes, are read", kWeightBlock, kNestedBlock));
    if (!state.contains("shape") || state["shape"] != nlohmann::json({tensor_.rows, tensor_.columns}))
      refuse(fmt::format("is not [{}, {}] in {}", tensor_.rows, tensor_.columns, name),
             "check model.* against the config.json beside the weights");
    check_table(weight_ + ".quant_map", table_of(tensor_.format));
    const int64_t blocks = tensor_.blocks();
    if (!nested) {
      tensor_.sizes = floats(weight_ + kAbsmax, blocks);
      return;
    }
    check_table(weight_ + ".nested_quant_map", map_of_sizes());
    tensor_.nested_codes = bytes(weight_ + kAbsmax, static_cast<std::size_t>(blocks));
    tensor_.sizes = floats(weight_ + ".nested_absmax", (blocks + kNestedBlock - 1) / kNestedBlock);
    tensor_.mean = static_cast<float>(number("nested_offset"));
  }

  const SafetensorsSet& source_;
  const std::string& weight_;
  QuantisedTensor tensor_;
};

// As pack_dict_to_tensor of bitsandbytes has it.
std::string state_text(const QuantisedTensor& tensor) {
  nlohmann::ordered_json state = {{"quant_type", name_of(tensor.format)},
                                  {"blocksize", kWeightBlock},
                                  {"dtype", "float32"},
                                  {"shape", {tensor.rows, tensor.columns}}};
  if (tensor.nested) {
    state["nested_blocksize"] = kNestedBlock;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = static_cast<double>(tensor.mean);
  }
  return state.dump();
}

// Its bytes are known before the tensor is: numbers are written with as many digits as any has.
constexpr std::size_t kStateBytes = 256;

}  // namespace

bool is_quantised_in(const SafetensorsSet& source, const std::string& weight) {
  return source.find(weight + kAbsmax) || source.find(beside(weight, "SCB"));
}

std::vector<std::string> names_beside(const std::string& weight) {
  std::vector<std::string> names = {beside(weight, "SCB"), beside(weight, "weight_format")};
  for (const char* suffix : {kAbsmax, ".quant_map", ".nested_absmax", ".nested_quant_map"})
    names.push_back(weight + suffix);
  for (const WeightFormat format : {WeightFormat::kNF4, WeightFormat::kFP4})
    names.push_back(state_name_of(weight, format));
  return names;
}

QuantisedTensor read_quantised(const SafetensorsSet& source, const std::string& weight, const StoredRow& row,
                               int64_t rows) {
  return Reader(source, weight, row, rows).read();
}

void declare_quantised(SafetensorsWriter& file, const std::string& weight, const StoredRow& row,
                       int64_t rows) {
  const int64_t blocks = rows * row.columns / kWeightBlock;
  if (row.format == WeightFormat::kInt8) {
    file.declare(weight, DType::kI8, {rows, row.columns});
    file.declare(beside(weight, "SCB"), DType::kF32, {rows});
    file.declare(beside(weight, "weight_format"), DType::kU8, {});
    return;
  }
  file.declare(weight, DType::kU8, {rows * row.columns / 2, 1});
  file.declare(weight + kAbsmax, row.nested ? DType::kU8 : DType::kF32, {blocks});
  file.declare(weight + ".quant_map", DType::kF32, {16});
  file.declare(state_name_of(weight, row.format), DType::kU8, {kStateBytes});
  if (!row.nested) return;
  file.declare(weight + ".nested_absmax", DType::kF32, {(blocks + kNestedBlock - 1) / kNestedBlock});
  file.declare(weight + ".nested_quant_map", DType::kF32, {256});
}

void write_quantised(SafetensorsWriter& file, const std::string& weight, const QuantisedTensor& tensor) {
  const auto put = [&](const std::string& name, const auto& values) {
    file.write(name, std::as_bytes(std::span(values)));
  };
  put(weight, tensor.codes);
  if (tensor.format == WeightFormat::kInt8) {
    put(beside(weight, "SCB"), tensor.sizes);
    put(beside(weight, "weight_format"), std::vector<uint8_t>{0});  // rows as they lie
    return;
  }
  std::string state = state_text(tensor);
  state.resize(kStateBytes, ' ');
  put(weight + ".quant_map", table_of(tensor.format));
  put(state_name_of(weight, tensor.format), state);
  if (!tensor.nested) return put(weight + kAbsmax, tensor.sizes);
  put(weight + kAbsmax, tensor.nested_codes);
  put(weight + ".nested_absmax", tensor.sizes);
  put(weight + ".nested_quant_map", map_of_sizes());
}

}  // namespace recollect
