// Folders whose names are safely on the disk. A new folder survives a power cut only if its parent folder has
// been flushed. That cannot be seen later, because the run that made it may have died before flushing.
#pragma once

#include <string>

#include "engine/io/descriptor.h"

namespace recollect {

// Flushes the names in the folder to the disk; file systems that cannot flush folders are ignored. This and
// make_folders() throw kStorage with the system's reason.
void flush_folder(const std::string& path);
// Makes the folder and its missing parents. The names of all of them, including those that existed, are
// flushed to the disk. If that fails for a new folder, the folder is removed, so that the next attempt makes
// it again.
void make_folders(const std::string& path);

// Returns the folder for files that later runs use: $XDG_CACHE_HOME/recollect, or ~/.cache/recollect if the
// variable is not set; "" if there is no home folder. It need not exist.
std::string user_cache_folder();

// Returns true if the path now names another folder than this open one, which was renamed or removed and made
// again. Returns false if the folder could not be opened or nothing has the name.
bool has_other_folder(const Descriptor& folder, const std::string& path);

}  // namespace recollect
