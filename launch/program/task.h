// What the configuration's task is to the model, to the data and to the mesh.
#pragma once

#include "engine/data/tasks.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/tasks/task.h"

namespace recollect {

TaskSettings task_settings(const Config& config);

// Of samples and batches. Error kConfiguration for special tokens outside the vocabulary.
TaskData task_data(const Config& config);

// The ranks as an array, of a configuration whose world is resolved.
std::vector<MeshAxis> mesh_axes(const Config& config);

}  // namespace recollect
