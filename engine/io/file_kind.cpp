#include "engine/io/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace recollect {

namespace {

using namespace std::string_view_literals;

struct Known {
  std::string_view magic;
  FileKind kind;
};

constexpr std::string_view kUnpack = "unpack it first",
                           kToJsonl = "write JSONL of it: datasets.load_dataset(...).to_json(FILE)",
                           kToNpy = "save one array as .npy: numpy.save(FILE, array)";

constexpr std::array kKnown = {
    Known{"\x1f\x8b"sv, {"is compressed with gzip", "unpack it first: gunzip FILE"}},
    Known{"BZh"sv, {"is compressed with bzip2", "unpack it first: bunzip2 FILE"}},
    Known{"\xff\xfe"sv, {"is text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"}},
    Known{"\xfe\xff"sv, {"is text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"}},
    Known{"\x28\xb5\x2f\xfd"sv, {"is compressed with zstd", "unpack it first: zstd -d FILE"}},
    Known{"\xfd\x37zXZ\0"sv, {"is compressed with xz", "unpack it first: unxz FILE"}},
    Known{"7z\xbc\xaf\x27\x1c"sv, {"is a 7z archive", kUnpack}},
    Known{"PK\x03\x04"sv,
          {"is a zip archive: NumPy's .npz, weights of PyTorch's, or a packed folder",
           "of .npz save one array as .npy: numpy.save(FILE, numpy.load(NPZ)[NAME]); unpack any other"}},
    Known{"PAR1"sv, {"is a Parquet file", kToJsonl}},
    Known{"ARROW1"sv, {"is an Arrow file", kToJsonl}},
    Known{"\x89HDF\r\n"sv, {"is an HDF5 file", kToNpy}},
    Known{"SQLite format 3"sv, {"is an SQLite database", "write CSV or JSONL of it"}},
    Known{"\x93NUMPY"sv, {"is an array of NumPy's", "data.format: tokens reads arrays of token ids"}},
    Known{"GGUF"sv,
          {"holds weights in the form of GGUF", "give the model in Hugging Face's form: *.safetensors"}},
    Known{"TNTIDX\0\0"sv,
          {"is an index of Megatron's or fairseq's old form (TNTIDX)",
           "make the data anew with Megatron's --dataset-impl mmap, or save its tokens as .npy"}},
    Known{"MMIDIDX\0\0"sv,
          {"is the index of Megatron's token files", "data.format: tokens reads it with the .bin beside it"}},
    Known{"%PDF-"sv, {"is a PDF document", "give its text"}},
};

bool begins_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

}  // namespace

std::optional<FileKind> kind_of_file(std::string_view begin, bool sure) {
  for (const Known& known : kKnown)
    if (begin.starts_with(known.magic) && (!sure || known.magic.size() >= 4)) return known.kind;
  if (begin.starts_with("\xff\xff\xff\xff"sv) && begin.size() > 8 && begin.substr(6, 2) == "\0\0"sv)
    return FileKind{"is an Arrow stream, as datasets caches them", kToJsonl};
  std::string_view text = begin.substr(0, kFileKindBytes);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (begins_with_word(text, "<!doctype html") || begins_with_word(text, "<html"))
    return FileKind{"is a web page", "it is what a server answered in place of the file: download it again",
                    /*may_be_text=*/true};
  constexpr std::size_t kLength = 8;  // the number of bytes of the header, stored before it
  if (!sure && begin.size() > kLength && begin[kLength] == '{' && begin.substr(3, 5) == "\0\0\0\0\0"sv)
    return FileKind{"holds weights in the form of safetensors", "name it in model.pretrained, by its folder"};
  return std::nullopt;
}

bool is_lfs_pointer(std::string_view begin) {
  return begin.starts_with("version https://git-lfs.github.com/spec/") ||
         begin.starts_with("version https://hawser.github.com/spec/");
}

}  // namespace recollect
