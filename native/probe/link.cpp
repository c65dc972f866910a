// native/probe/link.cpp
#include "probe/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "ring/descriptor.h"

namespace pilotlight {
namespace {

constexpr int64_t kFirstBackOffNs = 100000000;
// A job that ends before it has found the next agent takes what it published along.
constexpr int64_t kMaxBackOffNs = 1000000000;
constexpr int64_t kRefusedNs = 60000000000;

bool same_file(int fd, const struct stat& expected) noexcept {
  struct stat now;
  return fstat(fd, &now) == 0 && now.st_dev == expected.st_dev && now.st_ino == expected.st_ino;
}

}  // namespace

void Link::open(const char* socket_path, const Segment* segment) noexcept {
  strncpy(path_, socket_path, sizeof(path_) - 1);
  segment_ = segment;
  fstat(segment->fd(), &segment_stat_);
  fd_ = -1;
  refused_ = 0;
  retry_ns_ = 0;
  back_off_ns_ = kFirstBackOffNs;
}

void Link::forget() noexcept {
  if (fd_ >= 0 && is_ours()) close(fd_);
  fd_ = -1;
}

bool Link::is_ours() const noexcept { return same_file(fd_, socket_stat_); }

void Link::hang_up(int64_t now_ns) noexcept {
  if (fd_ >= 0 && is_ours()) {
    // The job's table of files may have it too.
    shutdown(fd_, SHUT_RDWR);
    close(fd_);
  }
  fd_ = -1;
  agent_pid_ = 0;
  retry_ns_ = now_ns + back_off_ns_;
  back_off_ns_ = std::min(back_off_ns_ * 2, kMaxBackOffNs);
}

bool Link::connect(int64_t now_ns) noexcept {
  if (fd_ >= 0) return true;
  if (now_ns < retry_ns_ || path_[0] == 0) return false;
  // The segment itself was closed by the job: nothing is left to hand over.
  if (!same_file(segment_->fd(), segment_stat_)) {
    retry_ns_ = INT64_MAX;
    return false;
  }
  fd_ = moved_aside(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd_ < 0) {
    hang_up(now_ns);
    return false;
  }
  fstat(fd_, &socket_stat_);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path_, sizeof(path_));
  ucred peer = {};
  socklen_t peer_size = sizeof(peer);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 ||
      // Only to our own user's agent or root's: the segment tells what this process does.
      (peer.uid != geteuid() && peer.uid != 0) || !send_hello()) {
    hang_up(now_ns);
    return false;
  }
  agent_pid_ = static_cast<uint32_t>(peer.pid);
  // Lets the agent read our stacks from outside where Yama would forbid it; elsewhere a no-op.
  prctl(PR_SET_PTRACER, peer.pid, 0, 0, 0);
  return true;
}

bool Link::send_hello() noexcept {
  ProbeHello hello = {kMagic, kAbiMajor, kAbiMinor, static_cast<uint32_t>(getpid()), kSegmentBytes};
  iovec part = {&hello, sizeof(hello)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  int fd = segment_->fd();
  memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  return sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(hello);
}

bool Link::receive(Control* control, int64_t now_ns) noexcept {
  if (fd_ < 0) return false;
  if (!is_ours()) {
    fd_ = -1;
    hang_up(now_ns);
    return false;
  }
  ssize_t got = recv(fd_, control, sizeof(*control), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got != static_cast<ssize_t>(sizeof(*control))) {
    hang_up(now_ns);
    return false;
  }
  switch (static_cast<ControlType>(control->type)) {
    case ControlType::kAccepted:
      back_off_ns_ = kFirstBackOffNs;
      refused_ = 0;
      break;
    case ControlType::kRefused:
      refused_ = control->value == 0 ? 1 : control->value;
      hang_up(now_ns);
      retry_ns_ = now_ns + kRefusedNs;
      break;
    default:
      break;
  }
  return true;
}

}  // namespace pilotlight
