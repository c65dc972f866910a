// native/tests/drain_bench.cpp: what one record costs the agent from ring to columns and sums.
//
//   drain_bench            prints a line a repeat: CPU nanoseconds a record
//   drain_bench RATE FD    is the producer of a live measurement: sends a segment over the socket
//   FD
//                          and then writes RATE records a second into it until it is killed
#include <sys/prctl.h>
#include <sys/socket.h>

#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "drain/reader.h"
#include "drain/tables.h"
#include "ring/segment.h"
#include "ring_check.h"

namespace pilotlight {
namespace {

constexpr uint32_t kNames = 64;
constexpr uint32_t kStacks = 500;
constexpr uint32_t kDepth = 20;

// What a process writes: a program's own thread goes through the same ranges step after step, with
// a counter now and then, and the sampler has a ring of its own. 70 % begins and ends, 20 %
// samples, 10 % counters.
class Job {
 public:
  explicit Job(Segment* segment) {
    CHECK(segment->take_ring(&program_, 1, "main"));
    CHECK(segment->take_ring(&sampler_, 2, "sampler"));
    Definitions& definitions = segment->definitions();
    for (uint32_t i = 0; i < kNames; i++) {
      names_.push_back(definitions.string("range " + std::to_string(i)));
    }
    std::vector<uint32_t> frames;
    uint32_t file = definitions.string("/opt/job/train.py");
    for (uint32_t i = 0; i < 200; i++) {
      frames.push_back(definitions.frame(definitions.string("f" + std::to_string(i)), file, i, i));
    }
    for (uint32_t i = 0; i < kStacks; i++) {
      uint32_t stack = 0;
      for (uint32_t depth = 0; depth < kDepth; depth++) {
        stack = definitions.stack(stack, frames[random_() % (depth < 15 ? 2 : frames.size())]);
      }
      CHECK(stack != 0);
      stacks_.push_back(stack);
    }
  }

  // Twenty records.
  void write() {
    // Seven ranges: one around all, two inside it, and two in each of these.
    uint32_t name = step_ % (kNames / 8) * 8;
    step_++;
    begin(name);
    for (uint32_t half : {1u, 4u}) {
      begin(name + half);
      for (uint32_t part : {1u, 2u}) {
        begin(name + half + part);
        end(name + half + part);
      }
      Counter counter = {};
      program_.write(RecordType::kCounter, names_[0], counter);
      end(name + half);
    }
    end(name);
    Sample sample = {};
    sample.tid = 1;
    sample.state = 1;
    sample.weight_ns = 10000000;
    for (int i = 0; i < 4; i++) {
      sampler_.write(RecordType::kSample, stacks_[random_() % kStacks], sample);
    }
  }

 private:
  void begin(uint32_t name) { program_.write(RecordType::kBegin, names_[name], RecordHeader{}); }
  void end(uint32_t name) { program_.write(RecordType::kEnd, names_[name], RecordHeader{}); }

  RingWriter program_, sampler_;
  uint32_t step_ = 0;
  std::minstd_rand random_{1};
  std::vector<uint32_t> names_, stacks_;
};

void measure() {
  Segment segment;
  CHECK(segment.create(nullptr));
  Reader reader;
  CHECK(reader.open(segment.fd(), 1) == nullptr);
  IdSet detail_given, window_given;
  Job job(&segment);
  uint64_t bytes = 0;
  for (int repeat = 0; repeat < 200; repeat++) {
    // Half of the program's ring: that is when the agent commits.
    for (int i = 0; i < 400; i++) job.write();
    int64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t records = reader.read();
    std::vector<Table> detail =
        detail_tables(reader.take(), 0, reader.definitions(), &detail_given);
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    std::vector<Table> windows =
        window_tables(reader.take_windows(now_ns), 0, reader.definitions(), &window_given);
    CHECK(reader.commit());
    int64_t spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
    CHECK(records >= 8000 && reader.losses().dropped == 0);
    for (const Table& table : detail) bytes += table.rows;
    for (const Table& table : windows) bytes += table.rows;
    std::printf("%.3f\n", static_cast<double>(spent_ns) / static_cast<double>(records));
  }
  CHECK(bytes > 0);
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

[[noreturn]] void produce(int64_t per_second, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Segment segment;
  CHECK(segment.create(nullptr));
  Job job(&segment);
  send_descriptor(socket, segment.fd());
  int64_t start_ns = clock_ns(CLOCK_MONOTONIC), written = 0;
  while (true) {
    int64_t due = (clock_ns(CLOCK_MONOTONIC) - start_ns) * per_second / 1000000000;
    for (; written < due; written += 20) job.write();
    timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  if (argc == 3) pilotlight::produce(std::atoll(argv[1]), std::atoi(argv[2]));
  pilotlight::measure();
}
