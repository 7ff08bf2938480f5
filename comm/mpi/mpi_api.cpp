#include "comm/mpi/mpi_api.h"

#ifdef RECOLLECT_LAZY_MPI
#include <dlfcn.h>

#include "engine/core/error.h"
#endif

namespace recollect::mpi {

#ifdef RECOLLECT_LAZY_MPI

namespace {

constexpr const char* kLibrary = "libmpi.so.40";  // Open MPI 3.1 to 5

// MPI's own plugins need its symbols to be global.
void* open_mpi(bool only_if_loaded, std::string* why) {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL | (only_if_loaded ? RTLD_NOLOAD : 0));
  if (!library && why) {
    const char* said = ::dlerror();
    *why = said ? said : kLibrary;
  }
  return library;
}

}  // namespace

bool is_present(std::string* why) { return open_mpi(false, why) != nullptr; }
bool is_loaded() { return open_mpi(true, nullptr) != nullptr; }

void* lazy_symbol(const char* name) {
  std::string why;
  void* const library = open_mpi(false, &why);
  if (!library)
    throw Error(ExitCode::kConfiguration, "MPI is not there: " + why,
                "install Open MPI 4, or start the ranks with `recollect run`, which needs none");
  void* const address = ::dlsym(library, name);
  if (!address)
    throw Error(ExitCode::kConfiguration, std::string(kLibrary) + " has no " + name,
                "this program was built for Open MPI 4; `recollect run` needs none");
  return address;
}

#else

bool is_present(std::string*) { return true; }
bool is_loaded() { return true; }

#endif

}  // namespace recollect::mpi
