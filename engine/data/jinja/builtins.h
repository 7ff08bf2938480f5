// The functions, filters, tests and methods that templates call by name, and how attributes and items are found. Each name
// means what it means in Jinja 3.1 and Python, as Transformers sets them up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/data/jinja/value.h"

namespace recollect::jinja {

// A filter or a test, of `of`.
using Builtin = Value (*)(Interpreter& interpreter, const Value& of, Arguments& arguments);

// Null where there is none of that name.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Value find_global(std::string_view name);  // undefined where there is none
std::vector<std::string> names_of_filters();
std::vector<std::string> names_of_tests();

// value.name: methods come before what a dict holds.
Value attribute_of(const Value& value, std::string_view name);
// value[key]: what a list or dict holds comes before methods.
Value item_of(const Value& value, const Value& key);
Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step);

// Undefined where the type has no such method.
Value method_of_text(const Value& self, std::string_view name);
Value method_of_dict(const Value& self, std::string_view name);
Value method_of_list(const Value& self, std::string_view name);

Value binary_result(std::string_view sign, const Value& a, const Value& b);
Value negated_number(const Value& value, bool negative);
bool compare_result(std::string_view sign, const Value& a, const Value& b);

// "%s" % values, and "{}".format(values).
std::string percent_format(std::string_view format, const Value& values);
std::string brace_format(std::string_view format, const Arguments& arguments);
// printf's %e, %f or %g of a number, with so many digits.
std::string formatted_real(double number, char kind, int64_t precision, bool alternate = false);
std::string date_text(std::string_view format, int64_t now);

// Items of map, select and their kin: "name.first.0" is looked up part by part.
Value path_of(const Value& value, const Value& path, const Value* otherwise = nullptr);

}  // namespace recollect::jinja
