// native/tests/ring_test.cpp: what RingWriter promises, one behaviour a test.
#include <sys/mman.h>

#include <csignal>
#include <random>

#include "ring_memory.h"

namespace pilotlight {
namespace {

void a_record_lands_as_written_and_moves_the_head_by_its_size() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  Event written = event(11, 12);
  written.header.flags = 0x81;
  CHECK(writer.write_at(RecordType::kEvent, 7, written, 99));
  CHECK_EQUAL(memory.head(), sizeof(Event));
  Event read = as<Event>(memory.drain().at(0));
  CHECK_EQUAL(read.header.size, sizeof(Event));
  CHECK_EQUAL(read.header.type, RecordType::kEvent);
  CHECK_EQUAL(read.header.flags, 0x81);
  CHECK_EQUAL(read.header.id, 7);
  CHECK_EQUAL(read.header.ticks, 99);
  CHECK_EQUAL(read.words[0], 11);
  CHECK_EQUAL(read.words[1], 12);
}

void a_write_at_once_only_does_what_needs_no_call_and_leaves_the_rest_undone() {
  RingMemory<256> memory;
  RingWriter other_clock = memory.writer();
  CHECK(!other_clock.write_at_once(RecordType::kEvent, 0, Event{}));

  ClockKind clock = is_read_at_once(ClockKind::kTsc) ? ClockKind::kTsc : ClockKind::kCntvct;
  RingWriter writer;
  writer.open(&memory.slot, &memory.tail, memory.data, 256, clock);
  Event written = {};
  for (uint64_t i = 0; i < 8; i++) {
    written.words[0] = i;
    CHECK(writer.write_at_once(RecordType::kEvent, 7, written));
  }
  CHECK(!writer.write_at_once(RecordType::kEvent, 7, written));
  CHECK_EQUAL(memory.slot.drops.load(), 0);
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 8);
  uint64_t last = 0;
  for (uint64_t i = 0; i < 8; i++) {
    Event event = as<Event>(records[i]);
    CHECK_EQUAL(event.words[0], i);
    CHECK_EQUAL(event.header.id, 7);
    CHECK_EQUAL(event.header.size, sizeof(Event));
    CHECK(event.header.ticks >= last);
    last = event.header.ticks;
  }
  memory.check_guards();
}

void a_full_ring_drops_the_newest_and_counts() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 8; i++) CHECK(write_event(&writer, i, i));
  for (uint64_t i = 8; i < 13; i++) CHECK(!write_event(&writer, i, i));
  CHECK_EQUAL(memory.head(), 256);
  CHECK_EQUAL(memory.slot.drops.load(), 5);
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 8);
  for (uint64_t i = 0; i < 8; i++) CHECK_EQUAL(as<Event>(records[i]).words[0], i);
  memory.check_guards();
}

void room_brings_a_gap_with_first_last_and_count_before_the_next_record() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 8; i++) CHECK(write_event(&writer, i, 100 + i));
  for (uint64_t i = 8; i < 11; i++) CHECK(!write_event(&writer, i, 100 + i));
  memory.drain();
  CHECK(write_event(&writer, 11, 111));
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 2);
  Gap gap = as<Gap>(records[0]);
  CHECK_EQUAL(gap.header.type, RecordType::kGap);
  CHECK_EQUAL(gap.count, 3);
  CHECK_EQUAL(gap.first_ticks, 108);
  CHECK_EQUAL(gap.last_ticks, 110);
  CHECK_EQUAL(gap.header.ticks, 110);
  CHECK_EQUAL(as<Event>(records[1]).words[0], 11);
  CHECK(write_event(&writer, 12, 112));
  CHECK_EQUAL(memory.drain().size(), 1);
}

void a_gap_that_takes_the_last_room_starts_the_next_gap() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 8; i++) CHECK(write_event(&writer, i, i));
  CHECK(!write_event(&writer, 8, 8));
  memory.tail.tail.store(64, std::memory_order_release);
  CHECK(!write_event(&writer, 9, 9));
  uint64_t at = 256;
  Gap gap = as<Gap>(memory.take(&at));
  CHECK_EQUAL(gap.count, 1);
  CHECK_EQUAL(gap.last_ticks, 8);
  CHECK_EQUAL(memory.head(), at);
  memory.tail.tail.store(at, std::memory_order_release);
  CHECK(write_event(&writer, 10, 10));
  auto records = memory.drain();
  Gap next = as<Gap>(records.at(0));
  CHECK_EQUAL(next.count, 1);
  CHECK_EQUAL(next.first_ticks, 9);
  CHECK_EQUAL(as<Event>(records.at(1)).words[0], 10);
  CHECK_EQUAL(memory.slot.drops.load(), 2);
}

void a_record_that_would_cross_the_wrap_is_preceded_by_a_pad() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 7; i++) CHECK(write_event(&writer, i, i));
  memory.drain();
  SamplerStats stats = {};
  stats.cpu_ns = 4711;
  CHECK(writer.write_at(RecordType::kSampler, 0, stats, 50));
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 2);
  CHECK_EQUAL(type_of(records[0]), RecordType::kPad);
  CHECK_EQUAL(records[0].size(), 32);
  CHECK_EQUAL(as<SamplerStats>(records[1]).cpu_ns, 4711);
  CHECK_EQUAL(memory.head(), 256 + sizeof(SamplerStats));
  memory.check_guards();
}

void a_record_that_ends_at_the_wrap_needs_no_pad() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 7; i++) CHECK(write_event(&writer, i, i));
  memory.drain();
  CHECK(write_event(&writer, 7, 7));
  CHECK(write_event(&writer, 8, 8));
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 2);
  CHECK_EQUAL(as<Event>(records[1]).words[0], 8);
}

void no_pad_is_written_where_the_record_behind_it_finds_no_room() {
  RingMemory<256> memory;
  RingWriter writer = memory.writer();
  for (uint64_t i = 0; i < 7; i++) CHECK(write_event(&writer, i, i));
  memory.tail.tail.store(32, std::memory_order_release);
  CHECK(!writer.write_at(RecordType::kSampler, 0, SamplerStats{}, 50));
  CHECK_EQUAL(memory.head(), 224);
  uint64_t at = 32;
  for (uint64_t i = 1; i < 7; i++) CHECK_EQUAL(as<Event>(memory.take(&at)).words[0], i);
}

void a_tail_that_cannot_be_true_counts_as_full_until_it_makes_sense() {
  const uint64_t hostile[] = {1ull << 63, ~0ull, ~0ull - 255, 64 + 256, 1ull << 40};
  for (uint64_t tail : hostile) {
    RingMemory<256> memory;
    RingWriter writer = memory.writer();
    for (uint64_t i = 0; i < 2; i++) CHECK(write_event(&writer, i, i));
    memory.tail.tail.store(tail, std::memory_order_release);
    // What was known to be free before may be used up; after that nothing.
    uint64_t written = 2;
    while (written < 20 && write_event(&writer, written, written)) written++;
    CHECK_EQUAL(written, 8);
    CHECK_EQUAL(memory.slot.drops.load(), 1);
    memory.check_guards();
    memory.tail.tail.store(0, std::memory_order_release);
    CHECK(memory.drain().size() == 8);
    CHECK(write_event(&writer, 21, 21));
    CHECK_EQUAL(as<Gap>(memory.drain().at(0)).count, 1);
  }
}

void a_ring_opened_under_a_tail_ahead_of_its_head_takes_nothing() {
  RingMemory<256> memory;
  memory.tail.tail.store(kRecordAlign, std::memory_order_release);
  RingWriter writer = memory.writer();
  CHECK(!write_event(&writer, 0, 0));
  CHECK_EQUAL(memory.head(), 0);
  CHECK_EQUAL(memory.slot.drops.load(), 1);
}

void random_tails_never_make_the_writer_leave_its_bytes() {
  std::mt19937_64 random(1);
  RingMemory<512> memory;
  RingWriter writer = memory.writer();
  uint64_t attempts = 0, written = 0;
  for (int i = 0; i < 200000; i++) {
    uint64_t head = memory.head();
    uint64_t near = head - 600 + random() % 1200;
    memory.tail.tail.store(random() % 4 == 0 ? random() : near, std::memory_order_release);
    attempts++;
    if (random() % 2 == 0) {
      written += write_event(&writer, i, i);
    } else {
      written += writer.write_at(RecordType::kSampler, 0, SamplerStats{}, i);
    }
    CHECK_EQUAL(memory.head() % kRecordAlign, 0);
  }
  CHECK(written > 1000);
  CHECK_EQUAL(memory.slot.drops.load(), attempts - written);
  memory.check_guards();
}

// The writer against the simplest possible statement of what it does: every record that it accepted
// comes out once, in order, and every refused one is in exactly one gap at its place.
struct InOrder {
  RingMemory<512> memory;
  uint64_t expected = 0;
  uint64_t missed = 0;

  void consume(uint64_t records) {
    uint64_t at = memory.tail.tail.load(std::memory_order_relaxed);
    for (; records > 0 && at < memory.head(); records--) check(memory.take(&at));
    memory.tail.tail.store(at, std::memory_order_release);
  }

  void check(const std::vector<char>& bytes) {
    if (type_of(bytes) == RecordType::kPad) return;
    if (type_of(bytes) == RecordType::kGap) {
      Gap gap = as<Gap>(bytes);
      CHECK_EQUAL(gap.first_ticks, expected);
      CHECK_EQUAL(gap.last_ticks, expected + gap.count - 1);
      expected += gap.count;
      missed += gap.count;
      return;
    }
    if (type_of(bytes) == RecordType::kEvent) {
      CHECK_EQUAL(as<Event>(bytes).words[0], expected);
      CHECK_EQUAL(as<Event>(bytes).words[1], ~expected);
    } else {
      CHECK_EQUAL(type_of(bytes), RecordType::kSampler);
      CHECK_EQUAL(as<SamplerStats>(bytes).cpu_ns, expected);
    }
    expected++;
  }
};

void any_mix_of_sizes_and_reads_keeps_order_and_accounts_for_every_record() {
  std::mt19937_64 random(2);
  InOrder reader;
  RingWriter writer = reader.memory.writer();
  uint64_t next = 0, refused = 0;
  for (int i = 0; i < 300000; i++) {
    if (random() % 3 == 0) {
      reader.consume(random() % 6);
      continue;
    }
    SamplerStats stats = {};
    stats.cpu_ns = next;
    bool taken = random() % 3 == 0 ? writer.write_at(RecordType::kSampler, 0, stats, next)
                                   : write_event(&writer, next, next);
    refused += !taken;
    next++;
  }
  reader.consume(~0ull);
  CHECK(write_event(&writer, next, next));
  reader.consume(~0ull);
  CHECK_EQUAL(reader.expected, next + 1);
  CHECK_EQUAL(reader.missed, refused);
  CHECK_EQUAL(reader.memory.slot.drops.load(), refused);
  CHECK(refused > 1000 && next - refused > 1000);
  reader.memory.check_guards();
}

// A page that faults once puts the handler exactly into the copy of a record.
RingWriter* nested_writer;
char* nested_page;
bool nested_result;

void write_inside_the_write(int) {
  nested_result = write_event(nested_writer, 666, 666);
  mprotect(nested_page, kPage, PROT_READ | PROT_WRITE);
}

void a_write_from_a_signal_handler_inside_a_write_is_dropped_and_counted() {
  nested_page = static_cast<char*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(nested_page != MAP_FAILED);
  RingSlot slot = {};
  RingTail tail = {};
  RingWriter writer;
  writer.open(&slot, &tail, nested_page, kPage, ClockKind::kMonotonic);
  nested_writer = &writer;
  CHECK(write_event(&writer, 1, 1));
  nested_result = true;
  struct sigaction action = {};
  action.sa_handler = write_inside_the_write;
  sigaction(SIGSEGV, &action, nullptr);
  mprotect(nested_page, kPage, PROT_READ);
  CHECK(write_event(&writer, 2, 2));
  signal(SIGSEGV, SIG_DFL);
  CHECK(!nested_result);
  CHECK_EQUAL(slot.nested.load(), 1);
  CHECK_EQUAL(slot.head.load(), 2 * sizeof(Event));
  Event read;
  std::memcpy(&read, nested_page + sizeof(Event), sizeof(read));
  CHECK_EQUAL(read.words[0], 2);
  CHECK(write_event(&writer, 3, 3));
  munmap(nested_page, kPage);
}

void a_retired_ring_taken_over_goes_on_at_the_head() {
  RingMemory<256> memory;
  RingWriter first = memory.writer();
  memory.slot.state.store(static_cast<uint32_t>(RingState::kActive));
  for (uint64_t i = 0; i < 3; i++) CHECK(write_event(&first, i, i));
  first.close();
  CHECK(!first.is_open());
  memory.slot.state.store(static_cast<uint32_t>(RingState::kRetired), std::memory_order_release);

  uint32_t retired = static_cast<uint32_t>(RingState::kRetired);
  CHECK(memory.slot.state.compare_exchange_strong(
      retired, static_cast<uint32_t>(RingState::kActive), std::memory_order_acquire));
  RingWriter second = memory.writer();
  for (uint64_t i = 3; i < 8; i++) CHECK(write_event(&second, i, i));
  CHECK(!write_event(&second, 8, 8));
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), 8);
  for (uint64_t i = 0; i < 8; i++) CHECK_EQUAL(as<Event>(records[i]).words[0], i);
}

void a_head_that_somebody_bent_is_aligned_again_at_the_take_over() {
  RingMemory<256> memory;
  for (uint64_t head : {256ull - 8, 256ull - 1, 4096ull - 24}) {
    memory.slot.head.store(head);
    memory.tail.tail.store(head - head % kRecordAlign);
    RingWriter writer = memory.writer();
    CHECK(write_event(&writer, 1, 1));
    CHECK_EQUAL(memory.head() % kRecordAlign, 0);
    memory.check_guards();
  }
}

void drops_of_an_owner_that_ended_stay_counted_in_the_slot() {
  RingMemory<256> memory;
  RingWriter first = memory.writer();
  for (uint64_t i = 0; i < 8; i++) CHECK(write_event(&first, i, i));
  CHECK(!write_event(&first, 8, 8));
  first.close();
  memory.drain();
  RingWriter second = memory.writer();
  CHECK(write_event(&second, 9, 9));
  CHECK_EQUAL(memory.slot.drops.load(), 1);
}

void the_last_words_of_a_process_find_room_in_a_full_ring() {
  RingMemory<16384> memory;
  RingWriter writer = memory.writer();
  uint64_t written = 0;
  while (write_event(&writer, written, written)) written++;
  CHECK(written < 16384 / sizeof(Event));
  writer.use_reserve();
  CHECK(write_event(&writer, 4711, 4711));
  auto records = memory.drain();
  CHECK_EQUAL(records.size(), written + 2);
  CHECK_EQUAL(as<Gap>(records[written]).count, 1);
  CHECK_EQUAL(as<Event>(records[written + 1]).words[0], 4711);
  memory.check_guards();
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  return run_tests({TEST(a_record_lands_as_written_and_moves_the_head_by_its_size),
                    TEST(a_write_at_once_only_does_what_needs_no_call_and_leaves_the_rest_undone),
                    TEST(a_full_ring_drops_the_newest_and_counts),
                    TEST(room_brings_a_gap_with_first_last_and_count_before_the_next_record),
                    TEST(a_gap_that_takes_the_last_room_starts_the_next_gap),
                    TEST(the_last_words_of_a_process_find_room_in_a_full_ring),
                    TEST(a_record_that_would_cross_the_wrap_is_preceded_by_a_pad),
                    TEST(a_record_that_ends_at_the_wrap_needs_no_pad),
                    TEST(no_pad_is_written_where_the_record_behind_it_finds_no_room),
                    TEST(a_tail_that_cannot_be_true_counts_as_full_until_it_makes_sense),
                    TEST(a_ring_opened_under_a_tail_ahead_of_its_head_takes_nothing),
                    TEST(random_tails_never_make_the_writer_leave_its_bytes),
                    TEST(any_mix_of_sizes_and_reads_keeps_order_and_accounts_for_every_record),
                    TEST(a_write_from_a_signal_handler_inside_a_write_is_dropped_and_counted),
                    TEST(a_retired_ring_taken_over_goes_on_at_the_head),
                    TEST(a_head_that_somebody_bent_is_aligned_again_at_the_take_over),
                    TEST(drops_of_an_owner_that_ended_stay_counted_in_the_slot)},
                   argc, argv);
}
