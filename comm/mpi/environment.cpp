// Starts MPI when an MpiEnvironment is made and ends it when it is destroyed, with thread support.
#include "comm/mpi.h"
#include "comm/mpi/mpi_api.h"
#include "comm/mpi/mpi_communicator.h"

namespace recollect {

MpiEnvironment::MpiEnvironment() : failed_(std::make_shared<std::atomic<bool>>(false)) {
  int started = 0;
  MPI_Initialized(&started);
  if (started) throw Error(ExitCode::kConfiguration, "MPI was started before recollect started it");
  int granted = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted);
  if (granted == MPI_THREAD_MULTIPLE) return;
  MPI_Finalize();
  throw Error(ExitCode::kConfiguration,
              "this MPI library does not let several threads communicate (MPI_THREAD_MULTIPLE)",
              "use an Open MPI built with thread support, or the communicator for one node");
}

MpiEnvironment::~MpiEnvironment() {
  if (failed_->load()) mpi_abort(static_cast<int>(ExitCode::kPeerLost));
  MPI_Finalize();
}

std::string mpi_library() {
  if (!mpi::is_present()) return "none on this machine";
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version = text;
  return version.substr(0, version.find_first_of(",\n"));
}

std::unique_ptr<Communicator> join_mpi_world(const MpiEnvironment& environment,
                                             std::chrono::milliseconds timeout) {
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  int size = 1;
  MPI_Comm_size(world, &size);
  if (size == 1) {
    MPI_Comm_free(&world);
    return make_self_communicator();
  }
  auto control = std::make_shared<mpi::Control>(world, timeout, environment.failed_);
  return std::make_unique<mpi::MpiCommunicator>(
      world, mpi::Settings{timeout, environment.failed_, std::move(control)});
}

void mpi_abort(int exit_code) {
  if (!mpi::is_loaded()) return;
  int started = 0, finished = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finished);
  if (started && !finished) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace recollect
