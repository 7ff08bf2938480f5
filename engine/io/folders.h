// Folders whose names are on the disk. A new folder is there after a power cut only when the folder around it has been
// flushed, and nobody can tell from looking whether it has: the run that made it may have died before.
#pragma once

#include <string>

#include "engine/io/descriptor.h"

namespace recollect {

// Errors: kStorage, with the system's reason.
//
// The names in it reach the disk. Of file systems that cannot flush a folder nothing is asked.
void flush_folder(const std::string& path);
// Makes it and those around it that are not there. The names of all of them reach the disk, of those too that were there;
// one that is new and whose name does not is taken away again, so that it is written anew the next time.
void make_folders(const std::string& path);

// Where the program keeps what later runs use: $XDG_CACHE_HOME/recollect, below ~/.cache where the variable is not set; "" where
// there is no home folder. It need not exist.
std::string user_cache_folder();

// Whether something else than this open folder has the name by now: it was renamed or removed, and another one made. Not
// where the folder could not be opened, or nothing has the name.
bool has_other_folder(const Descriptor& folder, const std::string& path);

}  // namespace recollect
