// The number in the file "version" of the folder where the code at `address` lies.
#pragma once

#include <dlfcn.h>

#include <fstream>
#include <string>

inline unsigned long version_beside(void* address) {
  Dl_info info{};
  dladdr(address, &info);
  const std::string file = info.dli_fname;
  unsigned long version = 0;
  std::ifstream(file.substr(0, file.rfind('/')) + "/version") >> version;
  return version;
}
