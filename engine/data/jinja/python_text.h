// What Python's str does, on UTF-8: places and lengths are code points, blanks are Unicode's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::jinja {

int64_t points_of(std::string_view text);
std::vector<std::string_view> split_points(std::string_view text);
std::size_t byte_of_point(std::string_view text, int64_t point);

bool is_blank_point(uint32_t point);  // str.isspace
bool is_line_end(uint32_t point);     // where str.splitlines cuts

std::string_view strip_left(std::string_view text, std::optional<std::string_view> points = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> points = {});

// str.split and rsplit; no separator: at blanks. `most`: cuts, or -1.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> by, int64_t most,
                               bool from_right);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);
std::string replaced(std::string_view text, std::string_view old, std::string_view by, int64_t most);

// Letters beyond ASCII: lower case as Unicode has it; upper case of what is the lower case of one letter.
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);
std::string capitalized(std::string_view text);
std::string title_case(std::string_view text);

std::string repr_of_text(std::string_view text);

// Start, stop and step as Python's slices have them; of a sequence of that length. Step is not 0.
struct SliceRange {
  int64_t start, stop, step;
};
SliceRange slice_range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
                       int64_t length);

bool is_letter(uint32_t point);
bool is_number_point(uint32_t point);

}  // namespace recollect::jinja
