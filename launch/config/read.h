// From a YAML file and command-line overrides to a complete, validated Config. Precedence: defaults, then the
// model's config.json, then the file, then the command line. Everything wrong is found in one pass and
// reported as one Error kConfiguration, one "place: message" per line; nothing is repaired.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/config/config.h"
#include "launch/config/validate.h"

namespace recollect {

// Reads the file at `path`. Relative paths inside it are relative to the working directory. `overrides` holds
// command- line words: "section.key=value", "--set section.key=value" in one or two words, or
// "--set=section.key=value"; a value that starts with '[' is a list where the key takes one, and any other
// value is taken as it is.
Config read_config(const std::string& path, const std::vector<std::string>& overrides = {},
                   const BuildFeatures& features = {});

// The same for a text; `name` stands for the file's name in messages.
Config read_config_text(const std::string& name, std::string_view text,
                        const std::vector<std::string>& overrides = {}, const BuildFeatures& features = {});

// Every key of the configuration as YAML, in the order of the table. Reading it gives the same configuration.
std::string dump_resolved(const Config& config);

// The section of a model alone, in one line.
std::string dump_model(const Config::Model& model);

// The same as dump_resolved with a comment at each value: where it was given, or what it follows from.
std::string dump_with_origins(const Config& config);

// Key -> value, as YAML text.
std::map<std::string, std::string> flatten(const Config& config);

}  // namespace recollect
