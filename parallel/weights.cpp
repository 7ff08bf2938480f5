#include "parallel/weights.h"

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>

#include "parallel/in_parallel.h"
#include "parallel/model_files.h"
#include "parallel/row_writer.h"

namespace recollect {

namespace {

constexpr int64_t kPartElements = 1 << 14;

using TensorNames = std::vector<std::vector<std::string>>;  // by parameter

// The disk reads one parameter while the one before it is turned and rounded.
void read_ahead(const SafetensorsSet& source, const TensorNames& names, std::size_t index) {
  if (index < names.size())
    for (const std::string& name : names[index]) source.will_read(name);
}

}  // namespace

// What parameters are filled with, one after the other.
struct Weights::Filling {
  explicit Filling(const ProgramMemory& memory) : writer(memory) {}
  RowWriter writer;
  Arena tensors{0};  // those of one parameter as files have them, where they are turned there
};

bool Weights::is_wide(std::size_t index) const {
  const Place& place = places_[index];
  return place.value.dtype == DType::kF64 || place.master.dtype == DType::kF64;
}

template <typename Fill>
void Weights::write_rows(Filling& filling, std::size_t index, const Fill& fill) const {
  if (is_wide(index))
    write_rows_as<double>(filling, index, fill);
  else
    write_rows_as<float>(filling, index, fill);
}

// To the master and to the compute copy.
template <typename T, typename Fill>
void Weights::write_rows_as(Filling& filling, std::size_t index, const Fill& fill) const {
  const Parameter& p = model_.parameters[index];
  const Place& place = places_[index];
  const int64_t rows = p.local_rows(mesh_.tensor_size()), columns = p.local_columns(mesh_.tensor_size());
  const auto destination = [&](const SharedTensor& tensor, bool divided) -> RowWriter::Destination {
    if (!divided) return {tensor, 0, rows};
    const int64_t first = std::min(rows, p.part_rows * mesh_.data_rank());
    return {tensor, first, std::min(rows, first + p.part_rows)};
  };
  const std::array<RowWriter::Destination, 2> both = {destination(place.value, place.divided_value),
                                                      destination(place.master, place.divided_master)};
  filling.writer.write<T>(rows, columns, std::span(both).first(p.value == p.master ? 1 : 2), fill);
}

void Weights::initialize(uint64_t seed) const {
  Filling filling(memory_);
  for (std::size_t index = 0; index < model_.parameters.size(); ++index) initialize_one(filling, index, seed);
}

void Weights::initialize_one(Filling& filling, std::size_t index, uint64_t seed) const {
  const Parameter& p = model_.parameters[index];
  if (p.is_stored()) return store(index, nullptr, {}, seed);
  if (p.init == Parameter::Init::kZero) return;  // the arena is zero already
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), first_column = p.whole_column(0, rank, size);
  const uint64_t place_of_all = places_[index].drawn;
  write_rows(filling, index, [&](int64_t first, int64_t count, auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    for (int64_t r = 0; r < count;) {
      const Parameter::RowPlace place = p.place_of_row(first + r, rank, size);
      const bool padding = place.row >= p.rows;
      const int64_t some = std::min(count - r, padding ? 1 : std::min(place.together, p.rows - place.row));
      if (padding)
        std::fill_n(out, columns, T{0});
      else if (columns == p.columns)
        draw(p, place_of_all, place.row, 0, some * columns, seed, out);
      else
        for (int64_t i = 0; i < some; ++i)
          draw(p, place_of_all, place.row + i, first_column, columns, seed, out + i * columns);
      r += some;
      out += some * columns;
    }
  });
}

std::vector<std::string> Weights::load(const SafetensorsSet& source, uint64_t seed) const {
  const TensorNames names = find_tensors(model_, source);
  Filling filling(memory_);
  std::vector<std::string> missing;
  read_ahead(source, names, 0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    read_ahead(source, names, i + 1);
    if (!names[i].empty()) {
      load_one(filling, i, source, names[i]);
      continue;
    }
    initialize_one(filling, i, seed);
    if (!model_.parameters[i].adapter) missing.push_back(model_.parameters[i].name);
  }
  return missing;
}

std::vector<std::string> Weights::load_adapters(const SafetensorsSet& source) const {
  const TensorNames names = find_adapter_tensors(model_, source);
  Filling filling(memory_);
  std::vector<std::string> loaded;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    load_one(filling, i, source, names[i]);
    loaded.push_back(model_.parameters[i].name);
  }
  return loaded;
}

void Weights::load_one(Filling& filling, std::size_t index, const SafetensorsSet& source,
                       const std::vector<std::string>& names) const {
  const Parameter& p = model_.parameters[index];
  if (p.is_stored()) return store(index, &source, names, 0);
  if (p.transposed_in_file)
    return is_wide(index) ? load_transposed<double>(filling, index, source, names)
                          : load_transposed<float>(filling, index, source, names);
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), first_column = p.whole_column(0, rank, size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  // This rank's rows and no others.
  write_rows(filling, index, [&](int64_t first, int64_t count, auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    // Of rows of which this rank has a part; few, as memory that is freed stays this process's.
    std::vector<T> whole(
        static_cast<std::size_t>(columns < p.columns ? std::max(p.columns, kPartElements) : 0));
    for (int64_t r = 0; r < count;) {
      const Parameter::RowPlace place = p.place_of_row(first + r, rank, size);
      const bool padding = place.row >= p.rows;
      const int64_t some = std::min(count - r, padding ? 1 : std::min(place.together, p.rows - place.row));
      const int64_t in_file = padding ? 0 : place.row - tensors[place.tensor].first_row;
      if (padding) {
        std::fill_n(out, columns, T{0});
      } else if (columns == p.columns) {
        source.read_as(names[place.tensor], out, in_file, some);
      } else {
        const int64_t at_once = std::max<int64_t>(1, kPartElements / p.columns);
        for (int64_t i = 0; i < some; ++i) {
          if (i % at_once == 0)
            source.read_as(names[place.tensor], whole.data(), in_file + i, std::min(at_once, some - i));
          std::copy_n(whole.data() + i % at_once * p.columns + first_column, columns, out + i * columns);
        }
      }
      r += some;
      out += some * columns;
    }
  });
}

// Of tensors that files hold turned, what this rank has columns of is read before any of it is turned.
template <typename T>
void Weights::load_transposed(Filling& filling, std::size_t index, const SafetensorsSet& source,
                              const std::vector<std::string>& names) const {
  constexpr int64_t kReadElements = 1 << 18, kTile = 16;
  const Parameter& p = model_.parameters[index];
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), first_column = p.whole_column(0, rank, size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  const std::size_t needed = static_cast<std::size_t>(p.rows * columns) * sizeof(T);
  if (filling.tensors.bytes() < needed) filling.tensors = Arena(needed);
  T* const all =
      reinterpret_cast<T*>(filling.tensors.at(0));  // one tensor after the other, [columns, its rows] each
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const int64_t rows = tensors[i].rows, together = std::max<int64_t>(1, kReadElements / rows);
    T* const to = all + tensors[i].first_row * columns;
    in_parallel((columns + together - 1) / together, [&](int64_t part) {
      const int64_t first = part * together;
      source.read_as(names[i], to + first * rows, first_column + first, std::min(together, columns - first));
    });
  }
  write_rows_as<T>(filling, index, [&](int64_t first, int64_t count, T* out) {
    for (int64_t r = 0; r < count;) {
      const Parameter::RowPlace place = p.place_of_row(first + r, rank, size);
      const bool padding = place.row >= p.rows;
      const int64_t some = std::min(count - r, padding ? 1 : std::min(place.together, p.rows - place.row));
      const Parameter::FileTensor& tensor = tensors[place.tensor];
      const T* const from = all + tensor.first_row * columns + (place.row - tensor.first_row);
      if (padding) std::fill_n(out, columns, T{0});
      for (int64_t tile = 0; !padding && tile < columns; tile += kTile)
        for (int64_t i = 0; i < some; ++i)
          for (int64_t c = tile; c < std::min(columns, tile + kTile); ++c)
            out[i * columns + c] = from[c * tensor.rows + i];
      r += some;
      out += some * columns;
    }
  });
}

}  // namespace recollect
