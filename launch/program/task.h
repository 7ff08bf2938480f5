// The settings of the configuration's task for the model, the data and the mesh.
#pragma once

#include "engine/data/tasks.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/tasks/task.h"

namespace recollect {

TaskSettings task_settings(const Config& config);

// How samples and batches are made. Throws kConfiguration for special tokens outside of the vocabulary.
TaskData task_data(const Config& config);

// The axes of the mesh, for a configuration whose world is resolved.
std::vector<MeshAxis> mesh_axes(const Config& config);

}  // namespace recollect
