// Files of text, whole and as UTF-8, and errors that name a line of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/bad_records.h"
#include "engine/io/json.h"

namespace recollect {

// Error kInput: PATH:LINE: what.
[[noreturn]] void fail_at_line(const std::string& path, int64_t line, const std::string& what,
                               std::string hint = {});

// The same of an error without a place. That of a record that holds nothing stays one.
[[noreturn]] void fail_at_line(const std::string& path, int64_t line, const Error& error);

// Without the byte order mark that it may begin with. Error kInput with line and column of what is no UTF-8.
std::string read_utf8(const std::string& path);

// Calls object(json, line) for each line. Error kInput with the line for one that is empty, or no JSON object, and what
// `object` throws, but where `bad` passes over them: those of such lines that hold something are behind what `left_out` has.
void for_each_json_line(std::string_view whole, const std::string& path, BadRecords& bad,
                        const std::function<void(const nlohmann::json&, int64_t)>& object,
                        std::vector<int64_t>* left_out = nullptr);
// Error kInput where a file that should hold lines of another kind holds objects of JSON.
void check_no_json(std::string_view whole, const std::string& path, const std::string& hint);
// What a file is whose first line is no record, with what to do; "" where nothing is known.
std::string what_jsonl_is(std::string_view first_line);

}  // namespace recollect
