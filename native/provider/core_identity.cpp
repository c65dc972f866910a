// native/provider/core_identity.cpp: the same rules as src/pilotlight/probe/identity.py, for the
// launchers that start programs without Python.
#include "provider/core_identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <initializer_list>

namespace pilotlight {
namespace {

constexpr size_t kMaxArgument = 256;
constexpr size_t kMaxArguments = 24;

class Json {
 public:
  Json(char* out, size_t capacity) noexcept : out_(out), capacity_(capacity) {}

  void raw(const char* text) noexcept {
    while (*text != 0) put(*text++);
  }
  void text(const char* text, size_t most) noexcept {
    put('"');
    for (size_t i = 0; text[i] != 0 && i < most; i++) {
      auto c = static_cast<unsigned char>(text[i]);
      // Not UTF-8 for sure, so nothing but ASCII goes out as it is.
      if (c == '"' || c == '\\') {
        put('\\');
        put(text[i]);
      } else if (c < 0x20 || c >= 0x7f) {
        put('?');
      } else {
        put(text[i]);
      }
    }
    put('"');
  }
  bool is_full() const noexcept { return used_ + 2 >= capacity_; }
  size_t used() const noexcept { return used_; }
  void cut(size_t used) noexcept { used_ = used; }

 private:
  void put(char c) noexcept {
    if (used_ + 1 < capacity_) out_[used_++] = c;
  }
  char* out_;
  size_t capacity_;
  size_t used_ = 0;
};

const char* first(const char* const* names) noexcept {
  // Slurm numbers the tasks of a step, and calls a batch script, which is none of them, the first.
  bool in_step = getenv("SLURM_STEP_ID") != nullptr;
  for (; *names != nullptr; names++) {
    if (!in_step && strncmp(*names, "SLURM_", 6) == 0) continue;
    const char* value = getenv(*names);
    if (value != nullptr && value[0] != 0) return value;
  }
  return nullptr;
}

void number(Json* json, const char* key, const char* const* names) noexcept {
  json->raw(", \"");
  json->raw(key);
  json->raw("\": ");
  const char* value = first(names);
  bool is_number = value != nullptr && strlen(value) < 10 && value[0] != 0 &&
                   strspn(value, "0123456789") == strlen(value);
  if (!is_number) return json->raw("null");
  char plain[16];
  snprintf(plain, sizeof(plain), "%d", atoi(value));
  json->raw(plain);
}

bool is_telling(const char* argument) noexcept {
  for (const char* word :
       {"token", "secret", "password", "passwd", "credential", "api_key", "api-key", "apikey"}) {
    size_t key = strcspn(argument, "=");
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= key; i++) {
      if (strncasecmp(argument + i, word, size) == 0) return true;
    }
  }
  return false;
}

void command(Json* json) noexcept {
  json->raw(", \"command\": [");
  static char line[16384];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd >= 0 ? read(fd, line, sizeof(line) - 1) : 0;
  if (fd >= 0) close(fd);
  line[got > 0 ? got : 0] = 0;
  bool hide_next = false;
  size_t count = 0;
  for (const char* argument = line; argument < line + got && count < kMaxArguments; count++) {
    if (count != 0) json->raw(", ");
    bool telling = is_telling(argument);
    bool has_value = strchr(argument, '=') != nullptr;
    json->text(hide_next || (telling && has_value) ? "***" : argument, kMaxArgument);
    hide_next = telling && !has_value && argument[0] == '-' && !hide_next;
    argument += strlen(argument) + 1;
  }
  json->raw("]");
}

}  // namespace

size_t core_identity(char* out, size_t capacity) noexcept {
  static const char* const kRank[] = {"RANK",      "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                      "PMIX_RANK", "MV2_COMM_WORLD_RANK",  "SLURM_PROCID",
                                      nullptr};
  static const char* const kLocal[] = {"LOCAL_RANK",      "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                       "SLURM_LOCALID",   nullptr};
  static const char* const kWorld[] = {
      "WORLD_SIZE",           "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
      "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",         nullptr};
  Json json(out, capacity);
  utsname names = {};
  uname(&names);
  char plain[32];
  const char* job = getenv("PILOTLIGHT_JOB");
  json.raw("{\"job\": ");
  if (job != nullptr && job[0] != 0) {
    json.text(job, 200);
  } else {
    json.raw("null");
  }
  json.raw(first(kRank) != nullptr ? ", \"role\": \"rank\"" : ", \"role\": \"main\"");
  number(&json, "rank", kRank);
  number(&json, "local_rank", kLocal);
  number(&json, "world_size", kWorld);
  json.raw(", \"attempt\": null, \"launcher\": null, \"node\": ");
  json.text(names.nodename, 64);
  snprintf(plain, sizeof(plain), "%d", getppid());
  json.raw(", \"container\": null, \"parent_pid\": ");
  json.raw(plain);
  json.raw(", \"python\": null");
  size_t before = json.used();
  command(&json);
  if (json.is_full()) {
    json.cut(before);
    json.raw(", \"command\": [\"...\"]");
  }
  json.raw("}");
  return json.used();
}

}  // namespace pilotlight
