#include "parallel/quantised_base.h"

#include <algorithm>
#include <vector>

#include "engine/io/safetensors_writer.h"
#include "parallel/model_files.h"
#include "parallel/quantised_files.h"
#include "parallel/weights.h"

namespace recollect {

namespace {

constexpr int64_t kBandNumbersOfBase = int64_t{1} << 17;
constexpr uint64_t kHeadersOfWeight = 8192;  // with tables and what names them

// Rows as they are there; every floating dtype of files is one of double's.
void copy(const SafetensorsSet& base, const std::string& from, SafetensorsWriter& file,
          const std::string& to) {
  const TensorEntry& entry = base.at(from);
  const int64_t rows = entry.shape.empty() ? 1 : entry.shape[0], columns = entry.elements() / rows,
                most = std::max<int64_t>(1, kBandNumbersOfBase / columns);
  std::vector<double> band;
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    band.resize(static_cast<std::size_t>(count * columns));
    base.read_as(from, band.data(), first, count);
    file.write_converted(to, band.data(), band.size());
  }
}

}  // namespace

void save_quantised_base(const Model& model, const SafetensorsSet& base, const std::string& path,
                         uint64_t most) {
  const std::vector<std::vector<std::string>> names = find_tensors(model, base);
  SafetensorsWriter file(path);
  file.split_at(most);
  const auto each = [&](const auto& act) {
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      const std::vector<Parameter::FileTensor> tensors = model.parameters[i].file_tensors();
      for (std::size_t t = 0; t < names[i].size(); ++t)
        act(model.parameters[i], tensors[t], names[i][t], model.files.in_file(tensors[t].name));
    }
  };
  each([&](const Parameter& p, const Parameter::FileTensor& tensor, const std::string& from,
           const std::string& to) {
    if (p.is_stored())
      declare_quantised(file, to, p.stored_row(1), tensor.rows);
    else
      file.declare(to, *base.at(from).dtype, base.at(from).shape);
  });
  file.begin();
  each([&](const Parameter& p, const Parameter::FileTensor& tensor, const std::string& from,
           const std::string& to) {
    if (p.is_stored())
      write_quantised(file, to, quantised_of_file(base, from, p, tensor.rows));
    else
      copy(base, from, file, to);
  });
  file.finish();
}

DType dtype_of_whole(const Model& model, const SafetensorsSet& base) {
  const std::vector<std::vector<std::string>> names = find_tensors(model, base);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty() && !model.parameters[i].is_stored()) return *base.at(names[i].front()).dtype;
  return DType::kF32;
}

uint64_t quantised_base_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const Parameter& p : model.parameters) {
    if (p.adapter) continue;
    const auto row = static_cast<uint64_t>(p.is_stored() ? p.stored_row(1).bytes() : p.columns * int64_t{8});
    bytes += kHeadersOfWeight + static_cast<uint64_t>(p.rows) * row;
  }
  return bytes;
}

}  // namespace recollect
