// What tests plan and do not run: configurations as `estimate` sees them.
#pragma once

#include <cstdint>
#include <string>

#include "launch/config/config.h"
#include "tests/launch/process.h"

namespace recollect::test {

// `words`: "section.key=value" on top of `yaml`.
Config planned(const std::string& yaml, const Words& words = {});

// Device bytes of a rank. Throws where the configuration is refused.
uint64_t bytes_of(const Config& planned);

// Of a micro-batch's compute stream, by the simulator: that it waits for other streams, and for collectives that stand on it.
double seconds_for_collectives(const Config& planned);

// Mode auto within so many bytes.
Words budget(uint64_t bytes);

}  // namespace recollect::test
