// native/tests/segment_kill_test.cpp: kills producers at random moments and reads back all they had
// published: segment_kill_test KILLS SEED
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <random>
#include <thread>

#include "drain/reader.h"
#include "ring/segment.h"
#include "ring_check.h"

namespace pilotlight {
namespace {

constexpr uint32_t kThreads = 2;

// Shared with the producer: how many records of each thread write() had returned for.
struct Published {
  alignas(kLine) std::atomic<uint64_t> records[kThreads];
};

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ull;
  return value ^ (value >> 29);
}

std::string name_of(uint64_t sequence) { return "name " + std::to_string(sequence / 64); }

// Three sizes; each holds its number and a second value that follows from it.
bool write_numbered(RingWriter* ring, uint32_t name, uint64_t sequence) {
  if (sequence % 3 == 0) {
    Event event = {};
    event.words[0] = sequence;
    event.words[1] = mix(sequence);
    return ring->write(RecordType::kEvent, name, event);
  }
  if (sequence % 3 == 1) {
    SamplerStats stats = {};
    stats.cpu_ns = sequence;
    stats.period_ns = mix(sequence);
    return ring->write(RecordType::kSampler, name, stats);
  }
  RecordHeader header = {};
  header.flags = static_cast<uint8_t>(mix(sequence));
  return ring->write(RecordType::kBegin, name, header);
}

void produce(Segment* segment, Published* published, uint32_t thread) {
  RingWriter ring;
  CHECK(segment->take_ring(&ring, thread, "producer"));
  uint64_t pause = thread;
  for (uint64_t sequence = 0;;) {
    uint32_t name = segment->definitions().string(name_of(sequence));
    if (write_numbered(&ring, name, sequence)) {
      sequence++;
      published->records[thread].store(sequence, std::memory_order_release);
    }
    pause = mix(pause + sequence);
    for (uint64_t i = pause % 300; i > 0; i--) asm volatile("");
  }
}

void send_descriptor(int socket, int fd) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  CHECK(sendmsg(socket, &message, 0) == 1);
}

int receive_descriptor(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
  int fd;
  CHECK(CMSG_FIRSTHDR(&message) != nullptr);
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  return fd;
}

[[noreturn]] void run_producer(Published* published, int socket) {
  // Nobody outlives a failed check.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Segment segment;
  CHECK(segment.create(nullptr));
  send_descriptor(socket, segment.fd());
  std::thread other([&] { produce(&segment, published, 1); });
  produce(&segment, published, 0);
  _exit(0);
}

// Reads the rings of one producer and checks every record against the number that it must have.
class Audit {
 public:
  explicit Audit(int fd) {
    CHECK(view_.open(fd) == nullptr);
    definitions_.open(&view_);
    open_rings();
  }

  // Another agent takes over: it knows only the tails.
  void open_rings() {
    for (uint32_t i = 0; i < kThreads; i++) rings_[i].open(&view_, i);
  }

  void read() {
    for (uint32_t i = 0; i < kThreads; i++) {
      rings_[i].read(scratch_, [&](const RecordHeader& header, const char* bytes) {
        check(i, header, bytes);
      });
      CHECK(!rings_[i].quarantined());
    }
  }

  void commit() {
    for (uint32_t i = 0; i < kThreads; i++) view_.set_tail(i, rings_[i].position());
  }

  uint64_t next(uint32_t thread) const { return next_[thread]; }
  uint64_t records() const { return records_; }

 private:
  void check(uint32_t ring, const RecordHeader& header, const char* bytes) {
    if (header.type == static_cast<uint8_t>(RecordType::kGap)) return;
    if (header.type == static_cast<uint8_t>(RecordType::kThread)) {
      Thread thread;
      std::memcpy(&thread, bytes, sizeof(thread));
      CHECK(thread.tid < kThreads);
      thread_[ring] = thread.tid;
      return;
    }
    uint64_t expected = next_[thread_[ring]]++;
    uint64_t first = expected, second = mix(expected);
    if (expected % 3 == 0) {
      CHECK_EQUAL(header.type, RecordType::kEvent);
      std::memcpy(&first, bytes + offsetof(Event, words), sizeof(first));
      std::memcpy(&second, bytes + offsetof(Event, words) + sizeof(first), sizeof(second));
    } else if (expected % 3 == 1) {
      CHECK_EQUAL(header.type, RecordType::kSampler);
      std::memcpy(&first, bytes + offsetof(SamplerStats, cpu_ns), sizeof(first));
      std::memcpy(&second, bytes + offsetof(SamplerStats, period_ns), sizeof(second));
    } else {
      CHECK_EQUAL(header.type, RecordType::kBegin);
      CHECK_EQUAL(header.flags, mix(expected) & 0xff);
    }
    CHECK_EQUAL(first, expected);
    CHECK_EQUAL(second, mix(expected));
    // The arena is bounded: a long-lived producer may have run out of it.
    std::string name;
    CHECK(header.id == 0 || definitions_.string(header.id, &name));
    if (header.id != 0) CHECK(name == name_of(expected));
    records_++;
  }

  SegmentView view_;
  DefinitionReader definitions_;
  RingReader rings_[kThreads];
  std::vector<char> scratch_;
  uint32_t thread_[kThreads] = {};
  uint64_t next_[kThreads] = {};
  uint64_t records_ = 0;
};

struct Totals {
  uint64_t records = 0, unconfirmed = 0, live_rounds = 0;
};

void kill_one(std::mt19937_64& random, Published* published, Totals* totals) {
  for (auto& count : published->records) count.store(0);
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) run_producer(published, sockets[1]);
  int fd = receive_descriptor(sockets[0]);
  bool live = random() % 2 == 0;
  {
    Audit audit(fd);
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + static_cast<int64_t>(random() % 2000000);
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
      if (!live) continue;
      audit.read();
      audit.commit();
      if (random() % 16 == 0) audit.open_rings();
    }
    CHECK(kill(child, SIGKILL) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    audit.read();
    for (uint32_t i = 0; i < kThreads; i++) {
      uint64_t confirmed = published->records[i].load();
      CHECK(audit.next(i) >= confirmed);
      // At most the one record whose publication was not noted any more.
      CHECK(audit.next(i) <= confirmed + 1);
      totals->unconfirmed += audit.next(i) - confirmed;
    }
    totals->records += audit.records();
    totals->live_rounds += live;
    if (!live) {
      // The whole reader comes to the same account.
      Reader reader;
      CHECK(reader.open(fd, 1) == nullptr);
      reader.finish(clock_ns(CLOCK_MONOTONIC));
      Rows rows = reader.take();
      uint64_t events = 0, begins = 0;
      for (uint32_t i = 0; i < kThreads; i++) {
        events += (audit.next(i) + 2) / 3;
        begins += audit.next(i) / 3;
      }
      CHECK(rows.marks.size() == events + 1 && rows.marks.back().kind == kMarkDied);
      CHECK(rows.spans.size() + reader.losses().unmatched == begins);
      CHECK_EQUAL(reader.losses().quarantined, 0);
    }
  }
  close(fd);
  close(sockets[0]);
  close(sockets[1]);
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  CHECK(argc == 3);
  int kills = std::atoi(argv[1]);
  std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  Totals totals;
  for (int i = 0; i < kills; i++) kill_one(random, static_cast<Published*>(page), &totals);
  std::printf("{\"kills\": %d, \"records\": %" PRIu64 ", \"live_rounds\": %" PRIu64
              ", \"published_but_not_noted\": %" PRIu64 "}\n",
              kills, totals.records, totals.live_rounds, totals.unconfirmed);
}
