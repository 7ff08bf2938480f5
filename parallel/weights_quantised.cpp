// Frozen weights that are stored in fewer bits. Every rank quantises, or reads, whole tensors, whatever part of them it has: blocks
// go on over what ranks divide, and so do the sizes of which there are sizes.
#include <algorithm>
#include <array>

#include "parallel/model_files.h"
#include "parallel/quantised_files.h"
#include "parallel/row_writer.h"
#include "parallel/weights.h"

namespace recollect {

namespace {

// Of whole weights in files, turned where they are there.
ReadRows rows_of_file(const SafetensorsSet& source, const std::string& name, const Parameter& p, int64_t rows,
                      std::vector<float>& all) {
  if (!p.transposed_in_file)
    return [&source, name](int64_t first, int64_t count, float* out) {
      source.read_as(name, out, first, count);
    };
  all.resize(static_cast<std::size_t>(rows * p.columns));
  source.read_as(name, all.data());
  return [&all, rows, columns = p.columns](int64_t first, int64_t count, float* out) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = all[c * rows + first + r];
  };
}

}  // namespace

QuantisedTensor quantised_of_file(const SafetensorsSet& source, const std::string& name, const Parameter& p,
                                  int64_t rows) {
  const StoredRow row = p.stored_row(1);
  if (is_quantised_in(source, name)) return read_quantised(source, name, row, rows);
  std::vector<float> all;
  return quantise_tensor(name, row, rows, rows_of_file(source, name, p, rows, all));
}

void Weights::store(std::size_t index, const SafetensorsSet* source, const std::vector<std::string>& names,
                    uint64_t seed) const {
  const Parameter& p = model_.parameters[index];
  const Place& place = places_[index];
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const std::vector<Parameter::FileTensor> files = p.file_tensors();
  std::vector<QuantisedTensor> tensors;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (source && !names.empty())
      tensors.push_back(quantised_of_file(*source, names[i], p, files[i].rows));
    else
      tensors.push_back(quantise_tensor(
          files[i].name, p.stored_row(1), files[i].rows, [&](int64_t first, int64_t count, float* out) {
            draw(p, place.drawn, files[i].first_row + first, 0, count * p.columns, seed, out);
          }));
  const StoredRow part = p.stored_row(size);
  const int64_t rows = p.local_rows(size), first_column = p.whole_column(0, rank, size);
  const int64_t begin = place.divided_value ? std::min(rows, p.part_rows * mesh_.data_rank()) : 0,
                end = place.divided_value ? std::min(rows, begin + p.part_rows) : rows;
  const std::array<RowWriter::Destination, 1> to = {RowWriter::Destination{place.value, begin, end}};
  RowWriter(memory_).write<uint8_t>(rows, part.bytes(), to, [&](int64_t first, int64_t count, uint8_t* out) {
    for (int64_t r = 0; r < count; ++r) {
      const Parameter::RowPlace at = p.place_of_row(first + r, rank, size);
      store_row(tensors[at.tensor], at.row - files[at.tensor].first_row, first_column, part,
                reinterpret_cast<std::byte*>(out + r * part.bytes()));
    }
  });
}

void Weights::store_base(const SafetensorsSet* source, uint64_t seed) const {
  const bool any = std::any_of(model_.parameters.begin(), model_.parameters.end(),
                               [](const Parameter& p) { return p.is_stored(); });
  if (!any) return;
  const auto names = source ? find_tensors(model_, *source)
                            : std::vector<std::vector<std::string>>(model_.parameters.size());
  for (std::size_t i = 0; i < model_.parameters.size(); ++i)
    if (model_.parameters[i].is_stored()) store(i, source, names[i], seed);
}

}  // namespace recollect
