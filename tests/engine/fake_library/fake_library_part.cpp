// The part of fake_library.cpp that knows its version.
#include "version_beside.h"

extern "C" unsigned long fake_part_version() {
  return version_beside(reinterpret_cast<void*>(&fake_part_version));
}
