#include "parallel/weights.h"

#include <algorithm>

#include "parallel/model_files.h"

namespace recollect {

namespace {

constexpr int64_t kBlockElements = 1 << 17;  // of a parameter, on their way to the device

// Numbers as `dtype` stores them, in memory that the next call takes again.
const void* converted(const std::vector<double>& from, DType dtype, std::vector<std::byte>& memory) {
  memory.resize(from.size() * size_of(dtype));
  const Tensor to{memory.data(), {static_cast<int64_t>(from.size())}, dtype};
  const auto into = [&]<typename T>(T* out) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if constexpr (sizeof(T) == 2)
        out[i] = T(static_cast<float>(from[i]));
      else
        out[i] = static_cast<T>(from[i]);
    }
  };
  switch (dtype) {
    case DType::kF64:
      return from.data();
    case DType::kF32:
      into(to.as<float>());
      return memory.data();
    case DType::kBF16:
      into(to.as<bf16>());
      return memory.data();
    case DType::kF16:
      into(to.as<f16>());
      return memory.data();
    default:
      throw Error(ExitCode::kInternal, "a weight is not floating");
  }
}

}  // namespace

// To the master and to the compute copy, a block of rows at a time.
void Weights::write_rows(std::size_t index, const FillRows& fill) const {
  const Parameter& p = model_.parameters[index];
  const Place& place = places_[index];
  const int64_t rows = p.local_rows(mesh_.tensor_size()), columns = p.local_columns(mesh_.tensor_size());
  const int64_t together = std::max<int64_t>(1, kBlockElements / columns);
  std::vector<double> numbers;
  std::vector<std::byte> memory;
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t count = std::min(together, rows - first);
    numbers.assign(count * columns, 0.0);
    fill(first, count, numbers.data());
    const auto write = [&](const SharedTensor& to, bool divided) {
      const std::size_t size = size_of(to.dtype);
      const int64_t first_held = divided ? p.part_rows * mesh_.data_rank() : 0,
                    end_held = divided ? first_held + p.part_rows : rows, begin = std::max(first, first_held),
                    end = std::min(first + count, end_held);
      const auto* from = static_cast<const std::byte*>(converted(numbers, to.dtype, memory));
      if (begin < end)
        memory_.write(to, from + (begin - first) * columns * size, (begin - first_held) * columns * size,
                      (end - begin) * columns * size);
    };
    write(place.value, place.divided_value);
    if (p.value != p.master) write(place.master, place.divided_master);
  }
}

void Weights::initialize(uint64_t seed) const {
  for (std::size_t index = 0; index < model_.parameters.size(); ++index) initialize_one(index, seed);
}

void Weights::initialize_one(std::size_t index, uint64_t seed) const {
  const Parameter& p = model_.parameters[index];
  if (p.init == Parameter::Init::kZero) return;  // the arena is zero already
  const int64_t columns = p.local_columns(mesh_.tensor_size());
  write_rows(index, [&](int64_t first, int64_t count, double* out) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < count; ++r) {
      const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
      const int64_t row = p.place_of_row(first + r, rank, size).row;
      if (row < p.rows)
        draw_row(p, places_[index].drawn, row, p.whole_column(0, rank, size), columns, seed,
                 out + r * columns);
    }
  });
}

std::vector<std::string> Weights::load(const SafetensorsSet& source, uint64_t seed) const {
  const std::vector<std::vector<std::string>> names = find_tensors(model_, source);
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) {
      load_one(i, source, names[i]);
      continue;
    }
    initialize_one(i, seed);
    if (!model_.parameters[i].adapter) missing.push_back(model_.parameters[i].name);
  }
  return missing;
}

std::vector<std::string> Weights::load_adapters(const SafetensorsSet& source) const {
  const std::vector<std::vector<std::string>> names = find_adapter_tensors(model_, source);
  std::vector<std::string> loaded;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    load_one(i, source, names[i]);
    loaded.push_back(model_.parameters[i].name);
  }
  return loaded;
}

void Weights::load_one(std::size_t index, const SafetensorsSet& source,
                       const std::vector<std::string>& names) const {
  const Parameter& p = model_.parameters[index];
  if (p.transposed_in_file) return load_transposed(index, source, names);
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), first_column = p.whole_column(0, rank, size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  std::vector<double> whole(columns < p.columns ? p.columns
                                                : 0);  // a row, where this rank has a part of each
  write_rows(index, [&](int64_t first, int64_t count, double* out) {  // this rank's rows and no others
    for (int64_t r = 0; r < count; ++r, out += columns) {
      const Parameter::RowPlace place = p.place_of_row(first + r, rank, size);
      if (place.row >= p.rows) continue;
      double* const row = whole.empty() ? out : whole.data();
      source.read_as(names[place.tensor], row, place.row - tensors[place.tensor].first_row, 1);
      if (!whole.empty()) std::copy_n(row + first_column, columns, out);
    }
  });
}

void Weights::load_transposed(std::size_t index, const SafetensorsSet& source,
                              const std::vector<std::string>& names) const {
  const Parameter& p = model_.parameters[index];
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  std::vector<double> read(p.rows * p.columns);  // one tensor after the other
  for (std::size_t i = 0; i < tensors.size(); ++i)
    source.read_as(names[i], read.data() + tensors[i].first_row * p.columns);
  write_rows(index, [&](int64_t first, int64_t count, double* out) {
    for (int64_t r = first; r < first + count; ++r, out += columns) {
      const Parameter::RowPlace place = p.place_of_row(r, rank, size);
      if (place.row >= p.rows) continue;
      const Parameter::FileTensor& tensor = tensors[place.tensor];
      const double* const from = read.data() + tensor.first_row * p.columns + (place.row - tensor.first_row);
      for (int64_t c = 0; c < columns; ++c) out[c] = from[p.whole_column(c, rank, size) * tensor.rows];
    }
  });
}

}  // namespace recollect
