// native/drain/reader.cpp
#include "drain/reader.h"

#include <unistd.h>

#include <algorithm>

#include "ring/segment.h"

namespace pilotlight {
namespace {

bool same_boot(const SegmentHeader& header) noexcept {
  static const std::array<uint8_t, 16> here = [] {
    std::array<uint8_t, 16> id = {};
    read_boot_id(id.data());
    return id;
  }();
  return std::memcmp(here.data(), header.boot_id, here.size()) == 0;
}

}  // namespace

const char* Reader::open(int fd, uint64_t epoch) {
  const char* reason = view_.open(fd);
  if (reason != nullptr) return reason;
  const SegmentHeader& h = view_.header();
  if (same_boot(h)) {
    clock_ = &machine_clock(static_cast<ClockKind>(h.clock_kind));
    clock_->refresh();
  } else {
    stated_ = TickClock::stated(h.clock_base, h.clock_now);
    clock_ = &stated_;
  }
  epoch_ = epoch;
  if (epoch != 0) view_.claim(epoch, static_cast<uint32_t>(getpid()));
  definitions_.open(&view_);
  for (uint32_t i = 0; i < h.ring_count; i++) {
    rings_[i].open(&view_, i);
    progress_[i].position = taken_[i].position = rings_[i].position();
  }
  return nullptr;
}

bool Reader::resume(uint32_t ring, const RingProgress& progress) {
  if (ring >= view_.header().ring_count || !rings_[ring].resume(progress.position)) return false;
  progress_[ring] = progress;
  if (progress_[ring].open.size() > kMaxOpenRanges) progress_[ring].open.resize(kMaxOpenRanges);
  taken_[ring] = progress_[ring];
  used_ |= uint64_t{1} << ring;
  return true;
}

uint64_t Reader::read() {
  if (clock_ != &stated_) clock_->refresh();
  uint64_t count = 0;
  for (uint32_t i = 0; i < view_.header().ring_count; i++) {
    uint64_t found = read_ring(i);
    if (found == 0 && !rings_[i].quarantined()) continue;
    progress_[i].position = rings_[i].position();
    used_ |= uint64_t{1} << i;
    count += found;
  }
  sum_rows();
  residual_gaps();
  live_.read += count;
  return count;
}

void Reader::residual_gap(uint32_t ring, GapReason reason, uint64_t total, uint64_t* known) {
  // A hostile counter may also go backwards: then nothing new is known.
  if (total <= *known) return;
  int64_t now = clock_ns(CLOCK_MONOTONIC);
  rows_.gaps.push_back({ring, reason, now, now, total - *known});
  *known = total;
}

// Losses that no gap record tells of: the ring never had room again, or there is no ring.
void Reader::residual_gaps() {
  for_used([&](uint32_t i) {
    RingProgress& ring = progress_[i];
    residual_gap(i, kGapNested, rings_[i].nested(), &ring.known_nested);
    if (finished_) residual_gap(i, kGapFull, rings_[i].drops(), &ring.known_full);
    if (rings_[i].quarantined() && ring.known_quarantined == 0) {
      // At most this many records were in what nobody can read any more.
      uint64_t most = rings_[i].held(rings_[i].position()) / kRecordAlign;
      residual_gap(i, kGapQuarantined, std::max<uint64_t>(most, 1), &ring.known_quarantined);
    }
  });
  residual_gap(0, kGapNoRing, view_.load64(offsetof(SegmentHeader, drops_no_ring)),
               &known_.no_ring);
  residual_gap(0, kGapDefinitions, view_.load64(offsetof(SegmentHeader, definitions_lost)),
               &known_.definitions);
}

double Reader::fill() const noexcept {
  uint64_t most = 0;
  for_used([&](uint32_t i) {
    if (!rings_[i].quarantined()) most = std::max(most, rings_[i].held(view_.tail(i)));
  });
  return static_cast<double>(most) / static_cast<double>(view_.header().ring_bytes);
}

void Reader::finish(int64_t time_ns, bool has_exited) {
  if (finished_) return;
  finished_ = true;
  read();
  for_used([&](uint32_t i) {
    OpenRange phase = phase_under_way(i);
    if (phase.name != 0) progress_[i].open.push_back(phase);
  });
  for (RingProgress& ring : progress_) {
    while (!ring.open.empty()) {
      close_range(ring, ring.open.size() - 1, time_ns, kSpanNeverClosed);
    }
  }
  sum_rows();
  if (!exited_) {
    rows_.marks.push_back({0, 0, time_ns, 0, has_exited ? kMarkExit : kMarkDied});
  }
}

Rows Reader::take() {
  Rows rows;
  // Room for as many again: the next second is likely to bring as much as the last.
  rows.spans.reserve(rows_.spans.size());
  rows.samples.reserve(rows_.samples.size());
  rows.counters.reserve(rows_.counters.size());
  rows.activities.reserve(rows_.activities.size());
  rows.launches.reserve(rows_.launches.size());
  std::swap(rows, rows_);
  summed_ = {};
  for_used([&](uint32_t i) { taken_[i] = progress_[i]; });
  return rows;
}

WindowRows Reader::take_windows(int64_t until_ns) {
  WindowRows rows;
  sums_.take(until_ns, &rows.windows, &rows.histograms);
  rows.steps.swap(window_steps_);
  rows.threads.swap(window_threads_);
  return rows;
}

void Reader::new_chunk() {
  rows_.threads.clear();
  for (const auto& [thread, known] : thread_names_) rows_.threads.push_back({thread, known.name});
}

bool Reader::commit() noexcept {
  if (epoch_ == 0 || !view_.owned_by(epoch_)) return false;
  for_used([&](uint32_t i) { view_.set_tail(i, taken_[i].position); });
  return true;
}

Losses Reader::losses() const noexcept {
  Losses losses = {};
  for (uint32_t i = 0; i < view_.header().ring_count; i++) {
    losses.dropped += rings_[i].drops();
    losses.nested += rings_[i].nested();
    losses.quarantined += rings_[i].quarantined();
  }
  losses.no_ring = view_.load64(offsetof(SegmentHeader, drops_no_ring));
  losses.definitions_lost = view_.load64(offsetof(SegmentHeader, definitions_lost));
  losses.unmatched = unmatched_;
  losses.unknown = unknown_ + sums_.lost();
  return losses;
}

std::vector<OpenRange> Reader::open_ranges() const {
  std::vector<OpenRange> open;
  for_used([&](uint32_t i) {
    OpenRange phase = phase_under_way(i);
    if (phase.name != 0) open.push_back(phase);
    const std::vector<OpenRange>& ranges = progress_[i].open;
    if (open.size() <= kMaxOpenRanges) open.insert(open.end(), ranges.begin(), ranges.end());
  });
  return open;
}

OpenRange Reader::phase_under_way(uint32_t ring) const noexcept {
  uint64_t slot = view_.header().table_offset + sizeof(RingSlot) * uint64_t{ring};
  uint32_t name = view_.load32(slot + offsetof(RingSlot, phase));
  int64_t start_ns = to_ns(view_.load64(slot + offsetof(RingSlot, phase_ticks)));
  bool is_whole = name == view_.load32(slot + offsetof(RingSlot, phase));
  return {is_whole ? name : 0, static_cast<uint8_t>(SpanKind::kPhase), start_ns};
}

std::string Reader::identity() const {
  const SegmentHeader& h = view_.header();
  uint64_t size = view_.load32(offsetof(SegmentHeader, identity_size));
  if (size > h.identity_capacity) return {};
  std::string text(size, '\0');
  if (!view_.copy(h.identity_offset, text.data(), size)) return {};
  return text;
}

std::string Reader::off_reason() const {
  if (view_.load32(offsetof(SegmentHeader, off)) == 0) return {};
  char reason[kReasonBytes + 1] = {};
  if (!view_.copy(offsetof(SegmentHeader, off_reason), reason, kReasonBytes)) return {};
  return reason[0] == 0 ? "no reason given" : reason;
}

}  // namespace pilotlight
