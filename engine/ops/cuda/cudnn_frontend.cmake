# Which versions of cudnn-frontend may be compiled in: it is cudnn-frontend, not cuDNN, that decides how attention's
# backward is put together, and so how many bytes of workspace it takes. The plan predicts them (attention_chunks.h), which
# was checked with these versions, on a described device (tests/gpu/described). Others may take another way: one that
# is too new is refused as one that is too old. Who checks a newer one raises the end.

set(RECOLLECT_CUDNN_FRONTEND_VERSION 1.32.0)  # the oldest; launch/fetch_cudnn_frontend.sh fetches this one
set(RECOLLECT_CUDNN_FRONTEND_END 1.33.0)      # the first that is not checked

# What a cudnn_frontend_version.h says, "1.32.0"; "none" where there is no such file.
function(read_frontend_version header out)
  set(found "none")
  if(EXISTS ${header})
    file(STRINGS ${header} found REGEX "define CUDNN_FRONTEND_[A-Z]+_VERSION +[0-9]+$")
    string(REGEX REPLACE "#define [A-Z_]+ +" "" found "${found}")
    string(REPLACE ";" "." found "${found}")
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# TRUE or FALSE.
function(is_checked_frontend version out)
  set(${out} FALSE PARENT_SCOPE)
  if(version VERSION_GREATER_EQUAL RECOLLECT_CUDNN_FRONTEND_VERSION AND version VERSION_LESS RECOLLECT_CUDNN_FRONTEND_END)
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()
