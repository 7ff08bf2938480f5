// MPI's header, as this folder includes it. If RECOLLECT_LAZY_MPI is defined, MPI is not linked: each MPI
// name that is used here is looked up in the machine's Open MPI when it is first used. The program then also
// starts, and runs its ranks without MPI, where none is installed.
#pragma once

#define OMPI_SKIP_MPICXX 1  // MPI's C++ binding, which we do not use
#include <mpi.h>

#include <string>

namespace recollect::mpi {

// Returns true if MPI is available. A lazy build looks for it, and `why` says what is missing.
bool is_present(std::string* why = nullptr);
// Returns true if any MPI function can have been called.
bool is_loaded();

}  // namespace recollect::mpi

#ifdef RECOLLECT_LAZY_MPI

namespace recollect::mpi {

// Throws Error kConfiguration if there is no Open MPI, or if it lacks this name.
void* lazy_symbol(const char* name);

}  // namespace recollect::mpi

// A macro's name is not expanded within its own expansion, so `name` refers to MPI's declaration.
#define RECOLLECT_LAZY(name)                                                                              \
  ([] {                                                                                                   \
    static const auto function = reinterpret_cast<decltype(&name)>(::recollect::mpi::lazy_symbol(#name)); \
    return function;                                                                                      \
  }())
#define RECOLLECT_LAZY_OBJECT(type, name) (*static_cast<type*>(::recollect::mpi::lazy_symbol(#name)))

#define MPI_Abort RECOLLECT_LAZY(MPI_Abort)
#define MPI_Alltoall RECOLLECT_LAZY(MPI_Alltoall)
#define MPI_Comm_dup RECOLLECT_LAZY(MPI_Comm_dup)
#define MPI_Comm_free RECOLLECT_LAZY(MPI_Comm_free)
#define MPI_Comm_group RECOLLECT_LAZY(MPI_Comm_group)
#define MPI_Comm_rank RECOLLECT_LAZY(MPI_Comm_rank)
#define MPI_Comm_set_errhandler RECOLLECT_LAZY(MPI_Comm_set_errhandler)
#define MPI_Comm_size RECOLLECT_LAZY(MPI_Comm_size)
#define MPI_Comm_split RECOLLECT_LAZY(MPI_Comm_split)
#define MPI_Error_string RECOLLECT_LAZY(MPI_Error_string)
#define MPI_Finalize RECOLLECT_LAZY(MPI_Finalize)
#define MPI_Finalized RECOLLECT_LAZY(MPI_Finalized)
#define MPI_Get_library_version RECOLLECT_LAZY(MPI_Get_library_version)
#define MPI_Group_free RECOLLECT_LAZY(MPI_Group_free)
#define MPI_Group_translate_ranks RECOLLECT_LAZY(MPI_Group_translate_ranks)
#define MPI_Init_thread RECOLLECT_LAZY(MPI_Init_thread)
#define MPI_Initialized RECOLLECT_LAZY(MPI_Initialized)
#define MPI_Iprobe RECOLLECT_LAZY(MPI_Iprobe)
#define MPI_Irecv RECOLLECT_LAZY(MPI_Irecv)
#define MPI_Isend RECOLLECT_LAZY(MPI_Isend)
#define MPI_Recv RECOLLECT_LAZY(MPI_Recv)
#define MPI_Testall RECOLLECT_LAZY(MPI_Testall)
#define MPI_Testsome RECOLLECT_LAZY(MPI_Testsome)
#define MPI_Waitall RECOLLECT_LAZY(MPI_Waitall)

// The objects whose addresses are Open MPI's constants.
#define ompi_mpi_byte RECOLLECT_LAZY_OBJECT(ompi_predefined_datatype_t, ompi_mpi_byte)
#define ompi_mpi_comm_null RECOLLECT_LAZY_OBJECT(ompi_predefined_communicator_t, ompi_mpi_comm_null)
#define ompi_mpi_comm_world RECOLLECT_LAZY_OBJECT(ompi_predefined_communicator_t, ompi_mpi_comm_world)
#define ompi_mpi_errors_return RECOLLECT_LAZY_OBJECT(ompi_predefined_errhandler_t, ompi_mpi_errors_return)
#define ompi_mpi_int RECOLLECT_LAZY_OBJECT(ompi_predefined_datatype_t, ompi_mpi_int)
#define ompi_request_null RECOLLECT_LAZY_OBJECT(ompi_predefined_request_t, ompi_request_null)

#endif
