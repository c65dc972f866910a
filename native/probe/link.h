// native/probe/link.h: the probe's line to the agent: hands over the segment, hears requests.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "ring/segment.h"

namespace pilotlight {

// First packet on probe.sock, with the segment's descriptor; docs/protocol.md.
struct ProbeHello {
  uint64_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t pid;
  uint64_t segment_bytes;
};
static_assert(sizeof(ProbeHello) == 24);

enum class ControlType : uint32_t {
  kAccepted = 1,
  kRefused = 2,
  kPeriod = 3,
  kPause = 4,
  kResume = 5,
  kTier = 6,
};

struct Control {
  uint32_t type;
  uint32_t value;
  uint64_t argument;
};
static_assert(sizeof(Control) == 16);

// Never blocks. Descriptors may be closed behind our back (a job that closes all of them) and their
// numbers given to the job's own files, so each is checked by inode before it is used.
class Link {
 public:
  void open(const char* socket_path, const Segment* segment) noexcept;
  // In a forked child: the line is the parent's.
  void forget() noexcept;

  // Tries to reach the agent if that is due. True while connected.
  bool connect(int64_t now_ns) noexcept;
  // The next request, if one has come; notices a hang-up.
  bool receive(Control* control, int64_t now_ns) noexcept;

  int fd() const noexcept { return fd_; }
  uint32_t agent_pid() const noexcept { return agent_pid_; }
  uint32_t refused() const noexcept { return refused_; }
  int64_t retry_ns() const noexcept { return retry_ns_; }

 private:
  bool send_hello() noexcept;
  bool is_ours() const noexcept;
  void hang_up(int64_t now_ns) noexcept;

  char path_[108] = {};
  const Segment* segment_ = nullptr;
  struct stat segment_stat_ = {};
  struct stat socket_stat_ = {};
  int fd_ = -1;
  uint32_t agent_pid_ = 0;
  uint32_t refused_ = 0;
  int64_t retry_ns_ = 0;
  int64_t back_off_ns_ = 0;
};

}  // namespace pilotlight
