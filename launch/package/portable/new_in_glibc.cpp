// What the C library got after version 2.31 and a program needs that was compiled with a later one, in terms of what it
// had before. Linked into programs that are to start on older systems too (portable.cmake), and into nothing else; there
// these functions stand before the C library's own, of whatever version.
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

// 2.33: files' facts were asked for through functions that know which struct the caller means.
int __xstat(int version, const char* path, struct stat* to) noexcept;
int __fxstat(int version, int file, struct stat* to) noexcept;
int __lxstat(int version, const char* path, struct stat* to) noexcept;
int __fxstatat(int version, int folder, const char* path, struct stat* to, int flags) noexcept;
int __xstat64(int version, const char* path, struct stat64* to) noexcept;
int __fxstat64(int version, int file, struct stat64* to) noexcept;
int __lxstat64(int version, const char* path, struct stat64* to) noexcept;
int __fxstatat64(int version, int folder, const char* path, struct stat64* to, int flags) noexcept;

int stat(const char* path, struct stat* to) noexcept { return __xstat(1, path, to); }
int fstat(int file, struct stat* to) noexcept { return __fxstat(1, file, to); }
int lstat(const char* path, struct stat* to) noexcept { return __lxstat(1, path, to); }
int fstatat(int folder, const char* path, struct stat* to, int flags) noexcept {
  return __fxstatat(1, folder, path, to, flags);
}
int stat64(const char* path, struct stat64* to) noexcept { return __xstat64(1, path, to); }
int fstat64(int file, struct stat64* to) noexcept { return __fxstat64(1, file, to); }
int lstat64(const char* path, struct stat64* to) noexcept { return __lxstat64(1, path, to); }
int fstatat64(int folder, const char* path, struct stat64* to, int flags) noexcept {
  return __fxstatat64(1, folder, path, to, flags);
}

// 2.32: whether there is but one thread. Who does not know takes no shortcut.
char __libc_single_threaded = 0;

// 2.32.
const char* sigabbrev_np(int signal) noexcept {
  static constexpr const char* kNames[] = {
      nullptr, "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
      "SEGV",  "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
      "TTOU",  "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
  constexpr int kCount = sizeof kNames / sizeof *kNames;
  return signal > 0 && signal < kCount ? kNames[signal] : nullptr;
}

// 2.34; the kernel's is of 5.9.
int close_range(unsigned first, unsigned last, int flags) noexcept {
  if (::syscall(436, first, last, flags) == 0) return 0;
  if (errno != ENOSYS || flags != 0) return -1;
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (unsigned file = first; file <= last && static_cast<long>(file) < most; ++file)
    ::close(static_cast<int>(file));
  return 0;
}

// 2.34: of what is open when it is asked for; a file of later is only closed where it was opened to be.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first) noexcept {
  DIR* const open = ::opendir("/proc/self/fd");
  if (!open) return errno;
  int error = 0;
  while (const dirent* entry = ::readdir(open)) {
    const int file = ::atoi(entry->d_name);
    if (error == 0 && file >= first && file != ::dirfd(open))
      error = ::posix_spawn_file_actions_addclose(actions, file);
  }
  ::closedir(open);
  return error;
}

// 2.36, with which std::random_device asks for numbers.
void arc4random_buf(void* to, size_t bytes) noexcept {
  auto* at = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0 && errno != EINTR) ::abort();
    if (got < 0) continue;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}
uint32_t arc4random() noexcept {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

// 2.35: where exceptions find the tables of the code that an address is in.
struct RecollectSearch {
  uintptr_t address;
  dl_find_object* found;
};

static int recollect_look_into(dl_phdr_info* object, size_t, void* argument) {
  auto* search = static_cast<RecollectSearch*>(argument);
  const ElfW(Phdr)* tables = nullptr;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + part.p_vaddr, to = from + part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) tables = &part;
    if (part.p_type != PT_LOAD) continue;
    inside |= search->address >= from && search->address < to;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
  }
  if (!inside || !tables) return 0;
  *search->found = {};
  search->found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search->found->dlfo_map_end = reinterpret_cast<void*>(end);
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + tables->p_vaddr);
  return 1;
}

int _dl_find_object(void* address, dl_find_object* found) noexcept {
  RecollectSearch search{reinterpret_cast<uintptr_t>(address), found};
  return ::dl_iterate_phdr(recollect_look_into, &search) == 1 ? 0 : -1;
}

// 2.34: before, a program brought what calls its constructors along, and the first object file of a later toolchain
// (crt1.o) does not. The linker puts this one before the C library's (--wrap).
using RecollectMain = int (*)(int, char**, char**);
using RecollectConstructor = void (*)(int, char**, char**);
extern RecollectConstructor __init_array_start[] __attribute__((visibility("hidden")));
extern RecollectConstructor __init_array_end[] __attribute__((visibility("hidden")));
void _init();
int __real___libc_start_main(RecollectMain, int, char**, RecollectConstructor, void (*)(), void (*)(), void*);

static void recollect_construct(int count, char** words, char** environment) {
  _init();
  for (RecollectConstructor* one = __init_array_start; one != __init_array_end; ++one)
    (*one)(count, words, environment);
}

int __wrap___libc_start_main(RecollectMain main_function, int count, char** words, RecollectConstructor,
                             void (*fini)(), void (*loader_fini)(), void* stack) {
  return __real___libc_start_main(main_function, count, words, recollect_construct, fini, loader_fini, stack);
}

}  // extern "C"
