// A shared library for test_library.cpp, which copies it to wherever a library is to be found. Its version is what its part
// says, which it opens by name alone, as cuDNN does; without a part, what the file "version" beside it says.
#include <dlfcn.h>

#include "version_beside.h"

extern "C" int fake_answer() { return 42; }

// As what the doctor is to find.
extern "C" unsigned long cudnnGetVersion() {
  return version_beside(reinterpret_cast<void*>(&cudnnGetVersion));
}

extern "C" unsigned long fake_version() {
  void* part = dlopen("libfake_of_recollect_part.so.13", RTLD_LAZY);
  if (!part) return version_beside(reinterpret_cast<void*>(&fake_version));
  return reinterpret_cast<unsigned long (*)()>(dlsym(part, "fake_part_version"))();
}
