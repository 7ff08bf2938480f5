// As at a limit on processes: the kernel gives no thread to who is in here, nor to the programs that it
// starts.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <thread>

namespace recollect::test {

// From here to the end of the calling thread. False where the kernel cannot do that.
inline bool forbid_threads() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kRefuse | ENOSYS),  // then the C library calls clone, whose flags can be read
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kRefuse | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Calls it on a thread of its own, which can make no others. False where the kernel cannot do that.
inline bool without_threads(const std::function<void()>& body) {
  bool forbidden = false;
  std::thread([&] {
    forbidden = forbid_threads();
    if (forbidden) body();
  }).join();
  return forbidden;
}

}  // namespace recollect::test
