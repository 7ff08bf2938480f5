// No test reads or writes the user's cache folder, nor does what a test starts; and no run in a test measures the machine's
// rates first (launch/doctor/machine_rates.h), which it would do for every model anew. A test of either has a folder of its own.
#include <cstdlib>

namespace recollect::test {
namespace {

[[maybe_unused]] const int has_no_cache = ::setenv("XDG_CACHE_HOME", "/dev/null", 1);

}  // namespace
}  // namespace recollect::test
