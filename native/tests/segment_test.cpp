// native/tests/segment_test.cpp: what the producer's segment and its definitions promise.
#include "ring/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ring_check.h"

namespace pilotlight {
namespace {

// A segment as its reader sees it: another mapping of the same descriptor.
struct Pair {
  Segment segment;
  const char* view;

  Pair() {
    CHECK(segment.create(nullptr));
    view = static_cast<const char*>(
        mmap(nullptr, kSegmentBytes, PROT_READ, MAP_SHARED, segment.fd(), 0));
    CHECK(view != MAP_FAILED);
  }
  ~Pair() {
    munmap(const_cast<char*>(view), kSegmentBytes);
    segment.forget();
  }

  const SegmentHeader* header() const { return reinterpret_cast<const SegmentHeader*>(view); }
  const RingSlot* slot(uint32_t ring) const {
    return reinterpret_cast<const RingSlot*>(view + kTableOffset) + ring;
  }
  template <typename T>
  T definition(uint32_t id) const {
    T entry;
    std::memcpy(&entry, view + kArenaOffset + uint64_t{id} * kDefinitionAlign, sizeof(entry));
    return entry;
  }
  std::string text(uint32_t id) const {
    auto header = definition<DefinitionHeader>(id);
    CHECK_EQUAL(header.kind, DefinitionKind::kString);
    const char* place = view + kArenaOffset + uint64_t{id} * kDefinitionAlign + sizeof(header);
    return std::string(place, header.size - sizeof(header) - header.unused);
  }
};

void a_new_segment_says_what_it_is_and_where_everything_lies() {
  Pair pair;
  const SegmentHeader* header = pair.header();
  CHECK_EQUAL(header->magic, kMagic);
  CHECK(std::memcmp(pair.view, "PILOTLT1", 8) == 0);
  CHECK_EQUAL(header->abi_major, kAbiMajor);
  CHECK_EQUAL(header->header_bytes, sizeof(SegmentHeader));
  CHECK_EQUAL(header->segment_bytes, kSegmentBytes);
  CHECK_EQUAL(header->pid, getpid());
  CHECK_EQUAL(header->start_time, process_start_time(getpid()));
  CHECK(header->start_time != 0);
  CHECK_EQUAL(header->ring_count, kMaxRings);
  CHECK_EQUAL(header->rings_offset + uint64_t{header->ring_count} * header->ring_bytes,
              header->segment_bytes);
  CHECK_EQUAL(header->clock_sequence.load() % 2, 0);
  CHECK(header->clock_now.monotonic_ns >= header->clock_base.monotonic_ns);
  CHECK_EQUAL(header->arena_head.load(), kDefinitionAlign);
  CHECK_EQUAL(header->off.load(), 0);
}

void the_size_of_the_memory_is_sealed() {
  Pair pair;
  int seals = fcntl(pair.segment.fd(), F_GET_SEALS);
  CHECK_EQUAL(seals, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  CHECK(ftruncate(pair.segment.fd(), kPage) != 0);
  CHECK(ftruncate(pair.segment.fd(), kSegmentBytes + kPage) != 0);
}

void a_folder_gives_a_private_file_of_full_size() {
  char folder[] = "/tmp/pilotlight-segment-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  Segment segment;
  CHECK(segment.create(folder));
  struct stat status;
  CHECK(fstat(segment.fd(), &status) == 0);
  CHECK_EQUAL(status.st_mode & 0777, 0600);
  CHECK_EQUAL(status.st_size, kSegmentBytes);
  CHECK(static_cast<uint64_t>(status.st_blocks) * 512 >= kSegmentBytes);
  char link[64], path[1024];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", segment.fd());
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  CHECK(length > 0);
  path[length] = 0;
  segment.forget();
  CHECK(unlink(path) == 0);
  CHECK(rmdir(folder) == 0);
}

void a_folder_that_is_not_there_is_refused() {
  Segment segment;
  CHECK(!segment.create("/nowhere/at/all"));
  CHECK(!segment.is_open());
}

void a_limit_on_the_size_of_files_refuses_it_without_a_signal() {
  rlimit before, small;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = before;
  small.rlim_cur = kSegmentBytes - 1;
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  Segment segment;
  bool created = segment.create(nullptr);
  int error = errno;
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(!created);
  CHECK(std::strstr(why_no_segment(error), "ulimit -f") != nullptr);
}

void a_forked_child_does_not_see_the_rings_of_its_parent() {
  Pair pair;
  RingWriter ring;
  CHECK(pair.segment.take_ring(&ring, 1, "main"));
  uint64_t head = pair.slot(0)->head.load();
  pid_t child = fork();
  if (child == 0) {
    // Without our fork handler a write here must die, not land in the parent's ring.
    signal(SIGSEGV, SIG_DFL);
    ring.write(RecordType::kEvent, 0, Event{});
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK_EQUAL(WTERMSIG(status), SIGSEGV);
  CHECK_EQUAL(pair.slot(0)->head.load(), head);
}

void a_ring_is_announced_by_its_thread() {
  Pair pair;
  RingWriter ring;
  CHECK(pair.segment.take_ring(&ring, 4711, "loader"));
  CHECK_EQUAL(pair.slot(0)->state.load(), RingState::kActive);
  Thread record;
  std::memcpy(&record, pair.view + kRingsOffset, sizeof(record));
  CHECK_EQUAL(pair.slot(0)->head.load(), sizeof(record));
  CHECK_EQUAL(record.header.type, RecordType::kThread);
  CHECK_EQUAL(record.tid, 4711);
  CHECK(pair.text(record.header.id) == "loader");
}

void there_are_as_many_rings_as_the_table_has_and_then_none() {
  Pair pair;
  std::vector<RingWriter> rings(kMaxRings + 1);
  for (uint32_t i = 0; i < kMaxRings; i++) CHECK(pair.segment.take_ring(&rings[i], i, "t"));
  CHECK(!pair.segment.take_ring(&rings[kMaxRings], 99, "t"));
  CHECK(!rings[kMaxRings].is_open());
}

void a_retired_ring_is_taken_before_a_fresh_one_and_goes_on_at_its_head() {
  Pair pair;
  RingWriter first, second, third;
  CHECK(pair.segment.take_ring(&first, 1, "one"));
  CHECK(pair.segment.take_ring(&second, 2, "two"));
  CHECK(first.write(RecordType::kEvent, 0, Event{}));
  uint64_t head = pair.slot(0)->head.load();
  uint32_t generation = pair.slot(0)->generation;
  pair.segment.retire_ring(&first);
  CHECK_EQUAL(pair.slot(0)->state.load(), RingState::kRetired);
  CHECK(pair.segment.take_ring(&third, 3, "three"));
  CHECK(third.slot()->head.load() == head + sizeof(Thread));
  CHECK_EQUAL(pair.slot(0)->generation, generation + 1);
  CHECK_EQUAL(pair.slot(2)->state.load(), RingState::kFree);
}

void a_retired_ring_that_is_full_is_passed_over() {
  Pair pair;
  RingWriter first, second;
  CHECK(pair.segment.take_ring(&first, 1, "one"));
  while (first.write(RecordType::kEvent, 0, Event{})) {
  }
  pair.segment.retire_ring(&first);
  CHECK(pair.segment.take_ring(&second, 2, "two"));
  CHECK_EQUAL(pair.slot(0)->state.load(), RingState::kRetired);
  CHECK_EQUAL(pair.slot(1)->state.load(), RingState::kActive);
}

void threads_that_race_for_rings_never_share_one() {
  Pair pair;
  std::vector<RingWriter> rings(kMaxRings);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; i++) {
    threads.emplace_back([&, i] {
      for (uint32_t j = i; j < kMaxRings; j += 4) {
        CHECK(pair.segment.take_ring(&rings[j], j, "racer"));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint32_t i = 0; i < kMaxRings; i++) {
    for (uint32_t j = 0; j < i; j++) CHECK(rings[i].slot() != rings[j].slot());
  }
}

void the_same_content_has_the_same_id_and_reads_back() {
  Pair pair;
  Definitions& definitions = pair.segment.definitions();
  uint32_t forward = definitions.string("forward");
  uint32_t empty = definitions.string("");
  CHECK(forward != 0 && empty != 0 && empty != forward);
  CHECK_EQUAL(definitions.string("forward"), forward);
  CHECK(pair.text(forward) == "forward");
  CHECK(pair.text(empty).empty());
  uint32_t frame = definitions.frame(forward, empty, 12, 10);
  CHECK_EQUAL(definitions.frame(forward, empty, 12, 10), frame);
  CHECK(definitions.frame(forward, empty, 13, 10) != frame);
  Frame read = pair.definition<Frame>(frame);
  CHECK(read.header.kind == static_cast<uint8_t>(DefinitionKind::kFrame) && read.line == 12);
  CHECK(read.function == forward && read.function < frame && read.file < frame);
  uint32_t root = definitions.stack(0, frame);
  Stack leaf = pair.definition<Stack>(definitions.stack(root, frame));
  CHECK(leaf.parent == root && leaf.frame == frame);
}

void a_long_string_is_cut() {
  Pair pair;
  std::string text(5000, 'x');
  CHECK_EQUAL(pair.text(pair.segment.definitions().string(text)).size(), kMaxStringBytes);
}

void a_full_arena_gives_id_zero_and_counts() {
  Pair pair;
  std::string text(kMaxStringBytes, 'x');
  uint64_t refused = 0;
  for (uint32_t i = 0; i < 7000; i++) {
    std::memcpy(&text[0], &i, sizeof(i));
    refused += pair.segment.definitions().string(text) == 0;
  }
  CHECK(refused > 0 && refused < 7000);
  CHECK_EQUAL(pair.header()->definitions_lost.load(), refused);
  CHECK(pair.header()->arena_head.load() <= kArenaBytes);
  CHECK(pair.segment.definitions().string("tail end") != 0);
}

void a_foreign_arena_head_never_makes_the_producer_write_outside() {
  Pair pair;
  for (uint64_t head : {~0ull, ~0ull - 15, kArenaBytes - 3ull, 5ull, 1ull << 40}) {
    pair.segment.header()->arena_head.store(head, std::memory_order_release);
    uint32_t id = pair.segment.definitions().string("after " + std::to_string(head));
    CHECK(id != 0);
    CHECK(pair.text(id) == "after " + std::to_string(head));
  }
}

void threads_that_define_at_once_agree_on_the_ids() {
  Pair pair;
  constexpr uint32_t kNames = 2000;
  std::vector<std::vector<uint32_t>> ids(3, std::vector<uint32_t>(kNames));
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < kNames; i++) {
        mine[i] = pair.segment.definitions().string("name " + std::to_string(i));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint32_t i = 0; i < kNames; i++) {
    CHECK(pair.text(ids[0][i]) == "name " + std::to_string(i));
    for (auto& mine : ids) CHECK_EQUAL(mine[i], ids[0][i]);
  }
  CHECK_EQUAL(pair.header()->definitions_lost.load(), 0);
}

void turning_off_keeps_the_first_reason() {
  Pair pair;
  pair.segment.turn_off(Off::kSampling, "too slow");
  pair.segment.turn_off(Off::kSampling, "something else");
  CHECK_EQUAL(pair.header()->off.load(), Off::kSampling);
  CHECK(std::strcmp(pair.header()->off_reason, "too slow") == 0);
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  return run_tests(
      {TEST(a_new_segment_says_what_it_is_and_where_everything_lies),
       TEST(the_size_of_the_memory_is_sealed), TEST(a_folder_gives_a_private_file_of_full_size),
       TEST(a_folder_that_is_not_there_is_refused),
       TEST(a_limit_on_the_size_of_files_refuses_it_without_a_signal),
       TEST(a_forked_child_does_not_see_the_rings_of_its_parent),
       TEST(a_ring_is_announced_by_its_thread),
       TEST(there_are_as_many_rings_as_the_table_has_and_then_none),
       TEST(a_retired_ring_is_taken_before_a_fresh_one_and_goes_on_at_its_head),
       TEST(a_retired_ring_that_is_full_is_passed_over),
       TEST(threads_that_race_for_rings_never_share_one),
       TEST(the_same_content_has_the_same_id_and_reads_back), TEST(a_long_string_is_cut),
       TEST(a_full_arena_gives_id_zero_and_counts),
       TEST(a_foreign_arena_head_never_makes_the_producer_write_outside),
       TEST(threads_that_define_at_once_agree_on_the_ids),
       TEST(turning_off_keeps_the_first_reason)},
      argc, argv);
}
