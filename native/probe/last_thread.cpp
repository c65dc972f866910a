// native/probe/last_thread.cpp
#include "probe/last_thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

namespace pilotlight {
namespace {

constexpr useconds_t kFirstPauseUs = 1000;
constexpr useconds_t kMaxPauseUs = 50000;
constexpr char kOwnName[] = "pilotlight-end";

// Whole names: a program may be called something like ours, and its threads after it.
bool is_ours(const char* name, size_t bytes) noexcept {
  for (const char* ours : {"pilotlight", "pilotlight-gpu", "pilotlight-read", kOwnName}) {
    if (strlen(ours) == bytes && memcmp(ours, name, bytes) == 0) return true;
  }
  return false;
}

// Not ours, and not ended: the main thread stays in the list when it has. What cannot be read is
// taken for the program's: to end it too early would be worse than never.
bool is_of_program(const char* thread) noexcept {
  char path[64], text[512] = {};
  snprintf(path, sizeof(path), "/proc/self/task/%.16s/stat", thread);
  FILE* file = fopen(path, "re");
  if (file == nullptr) return errno != ENOENT && errno != ESRCH;
  size_t bytes = fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  const char* name = strchr(text, '(');
  const char* state = strrchr(text, ')');
  if (bytes == 0 || name == nullptr || state == nullptr || state < name) return true;
  if (is_ours(name + 1, static_cast<size_t>(state - name - 1))) return false;
  return state[2] != 'Z' && state[2] != 'X';
}

bool has_threads() noexcept {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return true;
  bool found = false;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] != '.' && is_of_program(entry->d_name)) found = true;
  }
  closedir(tasks);
  return found;
}

void* wait_for_last(void*) noexcept {
  pthread_setname_np(pthread_self(), kOwnName);
  // Twice: one may have been made by another that ended while the list was read.
  useconds_t pause = kFirstPauseUs;
  for (int without = 0; without < 2; usleep(pause)) {
    without = has_threads() ? 0 : without + 1;
    pause = std::min(pause * 2, kMaxPauseUs);
  }
  exit(0);  // as the C library does when the last thread has ended
}

void main_ends(void*) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, wait_for_last, nullptr) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void end_with_last_thread() noexcept {
  static pthread_key_t key;
  static bool has_key = false;
  if (syscall(SYS_gettid) != getpid()) return;
  // A forked child has it already.
  has_key = has_key || pthread_key_create(&key, main_ends) == 0;
  // Any value: it is not called for a thread that has none.
  if (has_key) pthread_setspecific(key, &key);
}

}  // namespace pilotlight
