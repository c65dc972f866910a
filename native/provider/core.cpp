// native/provider/core.cpp: libpilotlight_core.so, the probe of a program without Python (or whose
// Python has no pilotlight): started when it is loaded, which only device libraries do.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/probe.h"
#include "provider/core_identity.h"

namespace pilotlight {
namespace {

constexpr const char* kNodeFolder = "/run/pilotlight";

bool is_set(const char* value) noexcept { return value != nullptr && value[0] != 0; }

// As in src/pilotlight/place.py.
void find_socket(char* path, size_t capacity) noexcept {
  const char* chosen = getenv("PILOTLIGHT_RUNTIME_DIR");
  const char* session = getenv("XDG_RUNTIME_DIR");
  if (is_set(chosen)) {
    snprintf(path, capacity, "%s/probe.sock", chosen);
    return;
  }
  if (geteuid() == 0) {
    snprintf(path, capacity, "%s/probe.sock", kNodeFolder);
  } else if (is_set(session)) {
    snprintf(path, capacity, "%s/pilotlight/probe.sock", session);
  } else {
    snprintf(path, capacity, "/tmp/pilotlight-%u/probe.sock", geteuid());
  }
  if (access(path, F_OK) != 0) {
    char node[64];
    snprintf(node, sizeof(node), "%s/probe.sock", kNodeFolder);
    if (access(node, F_OK) == 0) snprintf(path, capacity, "%s", node);
  }
}

void stop() noexcept { Probe::get().stop({}); }

__attribute__((constructor)) void start() noexcept {
  static char identity[kIdentityBytes];
  char socket[108] = {};
  find_socket(socket, sizeof(socket));
  Probe::create();
  const char* folder = getenv("PILOTLIGHT_SEGMENT_DIR");
  size_t bytes = core_identity(identity, sizeof(identity));
  Probe::get().start({socket, is_set(folder) ? folder : nullptr, {identity, bytes}, 0, nullptr});
  atexit(stop);
}

}  // namespace
}  // namespace pilotlight
