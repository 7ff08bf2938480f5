// Weights on their way to a file, a tile at a time. Rank 0 leads: before every tile it says so to the whole
// world, and while its disk is busy it says that, so that nobody who waits takes a slow disk for a lost rank.
// Tiles come from one tensor rank after the other; a thread of rank 0's writes one while the next comes.
// Where the system gives no thread rank 0 writes each itself, and the others hear of it between two.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/io/write_thread.h"
#include "parallel/lora.h"
#include "parallel/model_files.h"
#include "parallel/weights.h"

namespace recollect {

// A part of one tensor rank's part of a parameter.
struct Weights::Tile {
  std::size_t index = 0;  // of the parameter
  int owner = 0;          // tensor rank
  int holder = 0;         // data rank that has it; any has where nothing is divided
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

namespace {

// What rank 0 tells the others.
enum class SaveWord : int64_t { kWait, kTile, kSaved, kFailed };

constexpr std::chrono::milliseconds kSaveNews{100};  // between two words while the disk is busy

template <typename T>
void turn(const T* in, T* out, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) out[c * rows + r] = in[r * columns + c];
}

template <typename T>
void divide(T* values, int64_t count, double scale) {
  for (int64_t i = 0; i < count; ++i)
    values[i] =
        T(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(static_cast<double>(values[i]) / scale));
}

template <typename F>
void with_type(DType dtype, std::byte* data, const F& f) {
  switch (dtype) {
    case DType::kF64:
      return f(reinterpret_cast<double*>(data));
    case DType::kF32:
      return f(reinterpret_cast<float*>(data));
    case DType::kBF16:  // of what is frozen: it has no master copy
      return f(reinterpret_cast<bf16*>(data));
    case DType::kF16:
      return f(reinterpret_cast<f16*>(data));
    default:
      throw Error(ExitCode::kInternal, "what is saved of a weight is not floating");
  }
}

// Of the first value that is not finite; count where all are.
template <typename T>
int64_t first_non_finite(const T* values, int64_t count) {
  using Number = std::conditional_t<sizeof(T) == 2, float, T>;
  Number sum = 0;  // stays 0 where all are finite, and is faster than to ask each
  for (int64_t i = 0; i < count; ++i) sum += static_cast<Number>(values[i]) * Number{0};
  if (sum == 0) return count;
  return std::find_if(values, values + count, [](T x) { return !std::isfinite(static_cast<Number>(x)); }) -
         values;
}

}  // namespace

// One save as all ranks go through it.
class Weights::Saving {
 public:
  Saving(const Weights& weights, SafetensorsWriter* file, bool gradients, double scale)
      : weights_(weights),
        parameters_(weights.model_.parameters),
        mesh_(weights.mesh_),
        file_(file),
        gradients_(gradients),
        scale_(scale) {
    std::size_t declared = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      declared_.push_back(declared);
      if (saved(i).defined()) declared += weights.tensors_[i].size();
    }
  }

  std::optional<Error> carry_out() {
    require(weights_.tiles_.bytes() == kSaveBytes, "no memory was reserved to save weights with");
    return mesh_.world().rank() == 0 ? lead() : follow();
  }

 private:
  // The tile after this one, in an order that all ranks know; false behind the last. Frozen parameters have no
  // gradient to save.
  bool next(Tile& tile) const {
    const int size = mesh_.tensor_size();
    if (tile.rows > 0) {
      const Parameter& p = parameters_[tile.index];
      tile.column += tile.columns;
      if (tile.column == p.local_columns(size)) tile.column = 0, tile.row += tile.rows;
      if (tile.row == p.local_rows(size)) tile.row = 0, tile.owner += p.repeats;
      if (tile.owner == (p.split == Parameter::Split::kNone ? 1 : size)) tile.owner = 0, ++tile.index;
    }
    while (tile.index < parameters_.size() && !saved(tile.index).defined()) ++tile.index;
    if (tile.index == parameters_.size()) return false;
    const Parameter* const p = &parameters_[tile.index];
    // Whole rows where they are written as they lie; where they are turned, about as high as wide, since each
    // column is a piece of its own in the file.
    const int64_t rows = p->local_rows(size), columns = p->local_columns(size);
    const auto room = static_cast<int64_t>(kTileBytes / size_of(saved(tile.index).dtype));
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(room)));
    tile.columns = std::min(columns, p->transposed_in_file ? std::max(side, room / rows) : room);
    tile.rows = std::clamp<int64_t>(room / tile.columns, 1, rows);
    tile.columns = std::min(tile.columns, columns - tile.column);
    tile.rows = std::min(tile.rows, rows - tile.row);
    tile.holder = 0;
    if (const int64_t part = part_rows(tile.index); part > 0) {
      tile.holder = static_cast<int>(tile.row / part);
      tile.rows = std::min(tile.rows, part - tile.row % part);
    }
    return true;
  }

  const SharedTensor& saved(std::size_t index) const { return weights_.places_[index].saved(gradients_); }
  // That a data rank has of what is saved; 0 where each has all.
  int64_t part_rows(std::size_t index) const {
    const Place& place = weights_.places_[index];
    return (gradients_ ? place.divided_gradient : place.divided_master) ? parameters_[index].part_rows : 0;
  }
  std::byte* arriving() const { return weights_.tiles_.at(0); }
  std::byte* leaving() const { return weights_.tiles_.at(kTileBytes); }

  // From its owner to rank 0: along the data axis to the owner of data rank 0, and from there along the tensor axis.
  void fetch(const Tile& tile) const {
    const bool owner = mesh_.tensor_rank() == tile.owner;
    if (owner && mesh_.data_rank() == tile.holder) read(tile);
    const int64_t bytes = tile.rows * tile.columns * static_cast<int64_t>(size_of(saved(tile.index).dtype));
    const Tensor arrived{arriving(), {bytes}, DType::kU8};
    if (owner && tile.holder != 0) mesh_.host_communicator(kDataAxis).broadcast(arrived, tile.holder);
    if (mesh_.data_rank() == 0 && tile.owner != 0)
      mesh_.host_communicator(kTensorAxis).broadcast(arrived, tile.owner);
  }

  void read(const Tile& tile) const {
    const SharedTensor& from = saved(tile.index);
    const std::size_t width = size_of(from.dtype);
    const int64_t columns = parameters_[tile.index].local_columns(mesh_.tensor_size()),
                  row = tile.row - tile.holder * part_rows(tile.index);
    const bool whole_rows = tile.columns == columns;
    const int64_t lines = whole_rows ? 1 : tile.rows;
    const std::size_t line = (whole_rows ? tile.rows : 1) * tile.columns * width;
    for (int64_t i = 0; i < lines; ++i)
      weights_.memory_.read(arriving() + i * line, from, ((row + i) * columns + tile.column) * width, line);
  }

  // As the file has it.
  void arrange(const Tile& tile) const {
    const Parameter& p = parameters_[tile.index];
    const int64_t count = tile.rows * tile.columns;
    with_type(saved(tile.index).dtype, leaving(), [&](auto* out) {
      const auto* in = reinterpret_cast<decltype(out)>(arriving());
      if (p.transposed_in_file)
        turn(in, out, tile.rows, tile.columns);
      else
        std::copy_n(in, count, out);
      if (scale_ != 1) divide(out, count, scale_);
    });
  }

  // On the thread. Rows that follow each other in the whole are written together.
  void write(const Tile& tile) const {
    const Parameter& p = parameters_[tile.index];
    const std::vector<Parameter::FileTensor>& tensors = weights_.tensors_[tile.index];
    const std::size_t declared = declared_[tile.index];
    const int size = mesh_.tensor_size();
    const std::size_t width = size_of(saved(tile.index).dtype);
    const int64_t column = p.whole_column(tile.column, tile.owner, size);
    for (int64_t r = 0, passed = 0; r < tile.rows; r += passed) {
      const Parameter::RowPlace place = p.place_of_row(tile.row + r, tile.owner, size);
      passed = std::min(tile.rows - r, place.together);
      const int64_t rows = std::clamp<int64_t>(p.rows - place.row, 0, passed);  // the rest is padding
      const Parameter::FileTensor& tensor = tensors[place.tensor];
      const int64_t row = place.row - tensor.first_row;
      const auto put = [&, begin = declared + place.tensor](int64_t from, int64_t to, int64_t count) {
        if (count > 0) file_->write_at(begin, to * width, {leaving() + from * width, count * width});
      };
      if (p.transposed_in_file)
        for (int64_t c = 0; c < tile.columns; ++c)
          put(c * tile.rows + r, (column + c) * tensor.rows + row, rows);
      else if (tile.columns == p.columns)
        put(r * tile.columns, row * p.columns, rows * p.columns);
      else
        for (int64_t i = 0; i < rows; ++i)
          put((r + i) * tile.columns, (row + i) * p.columns + column, tile.columns);
    }
  }

  void pass_on(SaveWord& word) const { mesh_.world().broadcast({&word, {1}, DType::kI64}, 0); }
  void say(SaveWord word) const { pass_on(word); }
  SaveWord hear() const {
    SaveWord word{};
    pass_on(word);
    return word;
  }

  std::optional<Error> lead() {
    Tile tile, written;
    const std::function<void()> write_tile = [&] { write(written); }, finish = [&] { file_->finish(); };
    WriteThread thread;
    const auto idle = [&] {
      while (!thread.idle_within(kSaveNews)) say(SaveWord::kWait);
      return !thread.failure();
    };
    bool good = file_ != nullptr;
    while (good && next(tile)) {
      say(SaveWord::kTile);
      fetch(tile);
      good = idle();
      if (!good) break;
      arrange(written = tile);
      thread.give(write_tile);
    }
    good = good && idle();
    if (good) thread.give(finish);
    good = good && idle();
    say(good ? SaveWord::kSaved : SaveWord::kFailed);
    if (good) return std::nullopt;
    return thread.failure() ? why(thread.failure()) : Error(ExitCode::kStorage, "there is no file");
  }

  std::optional<Error> follow() {
    Tile tile;
    while (true) switch (hear()) {
        case SaveWord::kWait:
          continue;
        case SaveWord::kTile:
          require(next(tile), "rank 0 saves more tiles than there are");
          fetch(tile);
          continue;
        case SaveWord::kSaved:
          return std::nullopt;
        case SaveWord::kFailed:
          return Error(ExitCode::kStorage, "rank 0 could not write the file");
      }
  }

  // Only a disk that fails is an answer; what is our own fault goes on as it is.
  static Error why(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kStorage) return error;
      throw;
    }
  }

  const Weights& weights_;
  const std::vector<Parameter>& parameters_;
  const Mesh& mesh_;
  SafetensorsWriter* file_;
  const bool gradients_;
  const double scale_;
  std::vector<std::size_t> declared_;  // by parameter: how many tensors of the file stand before its own
};

Weights::Weights(const Model& model, const Graph& graph, const ProgramMemory& memory, const Mesh& mesh,
                 bool saves)
    : model_(model), memory_(memory), mesh_(mesh), tiles_(saves ? kSaveBytes : 0) {
  const auto tensor = [&](ValueId v) {
    return v == kNone ? SharedTensor{} : memory.shared(graph.value(v).name);
  };
  const auto divided = [&](ValueId v) { return graph.value(v).placement.is_sharded_over(kDataAxis); };
  const std::vector<uint64_t> drawn = drawn_places(model.parameters);
  const bool adapted = has_adapters(model.parameters);
  for (const Parameter& p : model.parameters) {
    places_.push_back({.value = tensor(p.value),
                       .master = tensor(p.master),
                       .gradient = tensor(p.gradient_part != kNone ? p.gradient_part : p.gradient),
                       .kept = adapted && !p.saved_with_adapters ? SharedTensor{} : tensor(p.master),
                       .drawn = drawn[places_.size()],
                       .divided_value = divided(p.value),
                       .divided_master = divided(p.master),
                       .divided_gradient = p.gradient_part != kNone});
    tensors_.push_back(p.file_tensors());
  }
}

std::unique_ptr<SafetensorsWriter> Weights::declare(const std::string& path, bool gradients,
                                                    uint64_t most) const {
  auto file = std::make_unique<SafetensorsWriter>(path);
  file->split_at(most);
  const bool as_adapters = !gradients && has_adapters(model_.parameters);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Parameter& p = model_.parameters[i];
    if (!places_[i].saved(gradients).defined()) continue;
    for (const Parameter::FileTensor& tensor : tensors_[i])
      file->declare(
          as_adapters ? adapter_tensor_name(model_.files, tensor.name) : model_.files.in_file(tensor.name),
          places_[i].saved(gradients).dtype, p.file_shape(tensor));
  }
  file->begin();
  return file;
}

std::unique_ptr<SafetensorsWriter> Weights::begin_file(const std::string& path, uint64_t most) const {
  return declare(path, false, most);
}

std::optional<Error> Weights::save(SafetensorsWriter* file) const {
  return Saving(*this, file, false, 1).carry_out();
}

void Weights::save_gradients(const std::string& path, double loss_scale) const {
  std::unique_ptr<SafetensorsWriter> file;
  if (mesh_.world().rank() == 0) file = declare(path, true, 0);
  const std::optional<Error> failed = Saving(*this, file.get(), true, loss_scale).carry_out();
  if (failed && file) throw *failed;
}

void Weights::check_finite(const std::string& saved) const {
  constexpr std::size_t kPiece = 32 << 10;
  alignas(8) std::array<std::byte, kPiece> piece{};
  int64_t bad = 0;  // parameters from the first bad one on: the most over all ranks is the first bad one
  int64_t place = 0;
  double value = 0;
  const auto count = static_cast<int64_t>(model_.parameters.size());
  for (int64_t i = 0; i < count && bad == 0; ++i) {
    const SharedTensor& whole = places_[static_cast<std::size_t>(i)].master;
    if (model_.parameters[static_cast<std::size_t>(i)].is_stored())
      continue;  // finite since it was quantised
    for (std::size_t at = 0; at < whole.bytes() && bad == 0; at += kPiece) {
      const std::size_t bytes = std::min(kPiece, whole.bytes() - at), width = size_of(whole.dtype);
      const auto elements = static_cast<int64_t>(bytes / width);
      memory_.read(piece.data(), whole, at, bytes);
      with_type(whole.dtype, piece.data(), [&](const auto* values) {
        const int64_t found = first_non_finite(values, elements);
        if (found == elements) return;
        bad = count - i;
        place = static_cast<int64_t>(at / width) + found;
        value = static_cast<double>(values[found]);
      });
    }
  }
  int64_t worst = bad;
  mesh_.world().all_reduce({&worst, {1}, DType::kI64}, ReduceOp::kMax);
  if (worst == 0) return;
  const Parameter& p = model_.parameters[static_cast<std::size_t>(count - worst)];
  const int64_t columns = p.local_columns(mesh_.tensor_size()), rank = mesh_.world().rank(),
                ranks = mesh_.world().size();
  int64_t behind = bad == worst ? ranks - rank : 0;  // the most is that of the first rank that holds it
  mesh_.world().all_reduce({&behind, {1}, DType::kI64}, ReduceOp::kMax);
  const int64_t teller = ranks - behind;
  throw SharedError(
      ExitCode::kNumerics,
      bad == worst ? fmt::format("parameter {} holds {} in row {}, column {} of this rank's part", p.name,
                                 value, place / columns, place % columns)
                   : fmt::format("parameter {} is not finite on rank {}", p.name, teller),
      (p.frozen ? "it is frozen, and no update has touched it: it was loaded so, from model.pretrained or a "
                  "snapshot. "
                : "lower optimizer.learning_rate: the last update made it so, if it was not loaded so. ") +
          saved,
      rank != teller);
}

}  // namespace recollect
