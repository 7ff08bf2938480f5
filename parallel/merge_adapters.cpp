#include "parallel/merge_adapters.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/io/safetensors_writer.h"
#include "parallel/model_files.h"
#include "parallel/weights.h"

namespace recollect {

namespace {

constexpr int64_t kBandNumbers = int64_t{1} << 17;
constexpr uint64_t kHeaderOfTensor = 512;

// A and B of a module, as files have them: [rank, in] and [out, rank].
struct LowRank {
  std::vector<double> a, b;
  int64_t rank = 0;
  double scale = 0;
};

class Merge {
 public:
  Merge(const Model& model, const LoraSettings& settings, const SafetensorsSet& base,
        const SafetensorsSet& adapters, const std::string& path, uint64_t most)
      : model_(model),
        rules_(settings, model.files),
        base_(base),
        adapters_(adapters),
        in_base_(find_tensors(model, base)),
        in_adapters_(find_adapter_tensors(model, adapters)),
        file_(path) {
    file_.split_at(most);
  }

  void run() {
    declare();
    for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
      const Parameter& p = model_.parameters[i];
      if (p.adapter) continue;
      const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
      for (std::size_t t = 0; t < tensors.size(); ++t) write(i, tensors[t], t);
    }
    file_.finish();
  }

 private:
  const SafetensorsSet& source_of(std::size_t index) const {
    return model_.parameters[index].saved_with_adapters ? adapters_ : base_;
  }
  const std::string& name_in_source(std::size_t index, std::size_t tensor) const {
    const std::vector<std::string>& names =
        (model_.parameters[index].saved_with_adapters ? in_adapters_ : in_base_)[index];
    if (names.empty())
      throw Error(ExitCode::kInput, "the model that adapters are of has no " + model_.parameters[index].name,
                  "give the model that they were trained on");
    return names[tensor];
  }

  void declare() {
    for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
      const Parameter& p = model_.parameters[i];
      if (p.adapter) continue;
      const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        const bool wide = source_of(i).at(name_in_source(i, t)).dtype == DType::kF64;
        file_.declare(model_.files.in_file(tensors[t].name), wide ? DType::kF64 : DType::kF32,
                      p.file_shape(tensors[t]));
      }
    }
    file_.begin();
  }

  LowRank adapter_of(const Parameter::FileTensor& tensor) const {
    const std::string module(module_of(tensor.name));
    const auto name_of = [&](const char* which) { return adapter_tensor_name(model_.files, module + which); };
    const std::string a = name_of(".lora_A.weight"), b = name_of(".lora_B.weight");
    if (!adapters_.find(a) || !adapters_.find(b)) return {};
    LowRank low;
    low.rank = rules_.rank_of(module);
    low.scale = rules_.scale_of(module);
    low.a.resize(static_cast<std::size_t>(adapters_.at(a).elements()));
    low.b.resize(static_cast<std::size_t>(adapters_.at(b).elements()));
    adapters_.read_as(a, low.a.data());
    adapters_.read_as(b, low.b.data());
    return low;
  }

  // [out, in], as the adapters were trained beside them.
  std::vector<float> stored_numbers(const std::string& source, const Parameter& p, int64_t rows) const {
    const QuantisedTensor tensor = quantised_of_file(base_, source, p, rows);
    std::vector<float> numbers(static_cast<std::size_t>(rows * p.columns));
    for (int64_t r = 0; r < rows; ++r) dequantise_row(tensor, r, numbers.data() + r * p.columns);
    return numbers;
  }

  void write(std::size_t index, const Parameter::FileTensor& tensor, std::size_t number) {
    const Parameter& p = model_.parameters[index];
    const std::vector<int64_t> shape = p.file_shape(tensor);
    const int64_t rows = shape[0], columns = shape.size() > 1 ? shape[1] : 1,
                  most = std::max<int64_t>(1, kBandNumbers / columns);
    const LowRank low = p.linear ? adapter_of(tensor) : LowRank{};
    const std::string& source = name_in_source(index, number);
    const std::string name = model_.files.in_file(tensor.name);
    const std::vector<float> stored =
        p.is_stored() ? stored_numbers(source, p, tensor.rows) : std::vector<float>();
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      band_.resize(static_cast<std::size_t>(count * columns));
      if (p.is_stored())
        for (int64_t i = 0; i < count * columns; ++i) {
          const int64_t row = first + i / columns, column = i % columns;
          band_[static_cast<std::size_t>(i)] = stored[static_cast<std::size_t>(
              p.transposed_in_file ? column * p.columns + row : row * columns + column)];
        }
      else
        source_of(index).read_as(source, band_.data(), first, count);
      if (low.rank > 0) add(low, p.transposed_in_file, first, count, columns);
      file_.write_converted(name, band_.data(), band_.size());
    }
  }

  // Element [i, j] of B A, or of its transpose.
  void add(const LowRank& low, bool transposed, int64_t first, int64_t count, int64_t columns) {
    const int64_t in = static_cast<int64_t>(low.a.size()) / low.rank;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t out = transposed ? j : first + i, column = transposed ? first + i : j;
        double sum = 0;
        for (int64_t r = 0; r < low.rank; ++r)
          sum += low.b[static_cast<std::size_t>(out * low.rank + r)] *
                 low.a[static_cast<std::size_t>(r * in + column)];
        band_[static_cast<std::size_t>(i * columns + j)] += low.scale * sum;
      }
  }

  const Model& model_;
  AdapterRules rules_;
  const SafetensorsSet &base_, &adapters_;
  std::vector<std::vector<std::string>> in_base_, in_adapters_;  // names, by parameter
  SafetensorsWriter file_;
  std::vector<double> band_;
};

}  // namespace

void merge_adapters(const Model& model, const LoraSettings& settings, const SafetensorsSet& base,
                    const SafetensorsSet& adapters, const std::string& path, uint64_t most) {
  Merge(model, settings, base, adapters, path, most).run();
}

uint64_t merged_bytes(const Model& model, std::size_t number_bytes) {
  uint64_t bytes = 0;
  for (const Parameter& p : model.parameters)
    if (!p.adapter) bytes += kHeaderOfTensor + static_cast<uint64_t>(p.rows * p.columns) * number_bytes;
  return bytes;
}

}  // namespace recollect
