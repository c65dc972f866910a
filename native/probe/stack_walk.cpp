// native/probe/stack_walk.cpp
#include "probe/stack_walk.h"

#include <algorithm>
#include <new>

#include "probe/python_offsets.h"
#include "probe/stack_copies.h"

namespace pilotlight {
namespace {

constexpr uint32_t kMaxInterpreterOffset = 1 << 20;
constexpr uint32_t kChunkHeaderBytes = 24;
// Four frames or so more than last time: a call or two does not need another read.
constexpr uint32_t kChunkMarginBytes = 512;
// How fast the depth of a moment ago is forgotten, a walk: there are up to eight in a pass.
constexpr uint64_t kForgottenBytes = 16;
constexpr uint64_t kMaxChunkSpan = 64 << 20;
constexpr uint32_t kMaxChunkLinks = 64;
constexpr uint32_t kLockSpans = 1;

}  // namespace

StackWalker::~StackWalker() { delete copies_; }

bool StackWalker::open(const ProcessMemory& memory, const PythonInfo& python) noexcept {
  uint32_t minor = (python.version >> 16) & 0xff;
  if (python.version >> 24 != 3 || minor < 10 || minor > 14) return false;
  python_ = python;
  memory_ = memory;
  if (memory.is_own()) static_.find(python.runtime);
  for (uint32_t i = 0; i < kPythonOffsets; i++) {
    if (i == kCodeTypeLow || i == kCodeTypeHigh) continue;
    if (python.offsets[i] > kMaxInterpreterOffset) return false;
  }
  thread_bytes_ = std::max({at(kThreadNext), at(kThreadFrame), at(kThreadNativeId), at(kThreadId),
                            at(kThreadChunk)}) +
                  8;
  frame_bytes_ =
      std::max({at(kFrameCode), at(kFramePrevious), at(kFrameInstruction), at(kFrameOwner)}) + 8;
  if (thread_bytes_ > kMaxThreadBytes || frame_bytes_ > kMaxFrameBytes) return false;
  gil_bytes_ = std::max({at(kGilHolder), at(kGilSwitches), at(kGilLocked)}) + 8;
  if (gil_bytes_ > kMaxGilBytes) return false;
  if (at(kCframeCurrent) > kCframeBytes - 8) return false;
  if (at(kChunkPrevious) > kChunkHeaderBytes - 8 || at(kChunkSize) > kChunkHeaderBytes - 8) {
    return false;
  }
  if (copies_ == nullptr) copies_ = new (std::nothrow) Copies;
  return copies_ != nullptr;
}

// Lays the parts out from `to->own` on.
uint32_t StackWalker::span_fetch(const Want& want, Fetched* to, Span* spans) const noexcept {
  const WalkHint& hint = *want.hint;
  uint32_t count = 0;
  to->address = want.thread.address;
  to->bytes = to->own;
  to->thread_copy = want.thread.copy;
  to->chunk_from = hint.chunk_from;
  to->chunk_bytes = hint.chunk_from != 0 ? hint.chunk_bytes : 0;
  to->strays = hint.strays;
  to->total = 0;
  auto add = [&](uint64_t address, uint32_t bytes) noexcept {
    spans[count++] = {address, to->own + to->total, bytes};
    to->total += bytes;
    return to->total - bytes;
  };
  if (want.thread.copy == nullptr) add(want.thread.address, thread_bytes_);
  for (uint32_t i = 0; i < WalkHint::kCframes; i++) {
    to->cframe_address[i] = hint.cframe[i];
    if (hint.cframe[i] != 0) to->cframe_at[i] = add(hint.cframe[i], kCframeBytes);
  }
  if (to->chunk_bytes != 0) to->chunk_at = add(hint.chunk_from, to->chunk_bytes);
  to->stray_at = to->total;
  for (uint32_t i = 0; i < hint.strays; i++) {
    to->stray_address[i] = hint.stray[i];
    add(hint.stray[i], frame_bytes_);
  }
  return count;
}

// An address of last time may be gone: without hints if they are wrong.
void StackWalker::fetch_alone(const Want& want, Fetched* to) noexcept {
  Span spans[ProcessMemory::kMaxSpans];
  uint32_t used = span_fetch(want, to, spans);
  if (memory_.read_all(spans, used)) return;
  *want.hint = {};
  used = span_fetch(want, to, spans);
  if (!memory_.read_all(spans, used)) to->address = 0;
}

uint32_t StackWalker::fetch(const Want* wants, uint32_t count, More* more, Gil* after) noexcept {
  Span spans[ProcessMemory::kMaxSpans];
  unsigned char* end = copies_->own;
  uint32_t used = 0;
  uint32_t fetched = 0;
  auto add_walks = [&](uint32_t until) noexcept {
    for (; fetched < until; fetched++) {
      uint32_t most = WalkHint::kFixedSpans + wants[fetched].hint->strays;
      if (used + most + kLockSpans > ProcessMemory::kMaxSpans) return;
      Fetched* to = &copies_->fetched[fetched];
      to->own = end;
      used += span_fetch(wants[fetched], to, spans + used);
      end += to->total;
    }
  };
  unsigned char* list_own = end;
  if (guessed_) {
    used = span_list(end, spans);
    end += knowns_ * kListedBytes;
  }
  count = std::min(count, kMaxFetched);
  add_walks(std::min(more->behind, count));
  bool has_more = used + more->count + 1 <= ProcessMemory::kMaxSpans;
  unsigned char* more_own = end;
  for (uint32_t i = 0; has_more && i < more->count; i++) {
    spans[used++] = {more->spans[i].address, end, more->spans[i].bytes};
    end += more->spans[i].bytes;
  }
  add_walks(count);
  spans[used++] = {gil_address_, end, gil_bytes_};
  *after = {};
  as_guessed_ = false;
  more->bytes = nullptr;
  const unsigned char* seen = memory_.view(spans, used, copies_->own);
  if (seen != nullptr) {
    auto place_of = [&](const unsigned char* own) noexcept { return seen + (own - copies_->own); };
    for (uint32_t i = 0; i < fetched; i++) {
      copies_->fetched[i].bytes = place_of(copies_->fetched[i].own);
    }
    if (has_more) more->bytes = place_of(more_own);
    *after = gil_in(place_of(end));
    as_guessed_ = guessed_ && is_listed(place_of(list_own));
    guessed_ = false;
    return fetched;
  }
  guessed_ = false;
  for (uint32_t i = 0; i < fetched; i++) fetch_alone(wants[i], &copies_->fetched[i]);
  return fetched;
}

bool StackWalker::first_frame(const Fetched& from, WalkHint* hint, uint64_t* frame) noexcept {
  Copies& copies = *copies_;
  copies.chunks = copies.strays = 0;
  if (from.address == 0) return false;
  const unsigned char* thread = from.thread();
  copies.chunk = at(kThreadChunk) != 0 ? value_at<uint64_t>(thread, at(kThreadChunk)) : 0;
  *frame = value_at<uint64_t>(thread, at(kThreadFrame));
  bool has_cframe = python_.version >= 0x030b0000 && python_.version < 0x030d0000;
  if (!has_cframe || *frame == 0) return true;
  uint64_t cframe = *frame;
  uint32_t i = 0;
  while (i < WalkHint::kCframes && from.cframe_address[i] != cframe) i++;
  if (i < WalkHint::kCframes) {
    *frame = value_at<uint64_t>(from.bytes + from.cframe_at[i], at(kCframeCurrent));
    return true;
  }
  late_ = true;
  unsigned char bytes[kCframeBytes];
  if (!memory_.read(cframe, bytes, kCframeBytes)) return false;
  std::copy_backward(hint->cframe, hint->cframe + WalkHint::kCframes - 1,
                     hint->cframe + WalkHint::kCframes);
  hint->cframe[0] = cframe;
  *frame = value_at<uint64_t>(bytes, at(kCframeCurrent));
  return true;
}

// The bulk read: everything from the start of the chunk to the end of this frame's head, so that
// its callers below come with it.
const unsigned char* StackWalker::copy_chunk(uint64_t address) noexcept {
  Copies& copies = *copies_;
  uint64_t base = copies.chunk;
  for (uint32_t i = 0; base != 0 && i < kMaxChunkLinks; i++) {
    unsigned char header[kChunkHeaderBytes];
    if (!memory_.read(base, header, sizeof(header))) return nullptr;
    uint64_t size = value_at<uint64_t>(header, at(kChunkSize));
    if (address > base && address - base < size) {
      if (copies.chunks == Copies::kMaxChunks) return nullptr;
      Copies::Chunk& chunk = copies.chunk_copy[copies.chunks];
      uint64_t end = address + frame_bytes_;
      chunk.from = end - base > Copies::kChunkBytes ? end - Copies::kChunkBytes : base;
      chunk.bytes = static_cast<uint32_t>(end - chunk.from);
      if (!memory_.read(chunk.from, chunk.data, chunk.bytes)) return nullptr;
      copies.chunks++;
      return chunk.data + (address - chunk.from);
    }
    base = value_at<uint64_t>(header, at(kChunkPrevious));
  }
  return nullptr;
}

const unsigned char* StackWalker::copy_stray(uint64_t address) noexcept {
  Copies& copies = *copies_;
  if (copies.strays == kMaxNodes) return nullptr;
  Copies::Stray& stray = copies.stray[copies.strays];
  if (!memory_.read(address, stray.data, frame_bytes_)) return nullptr;
  stray.address = address;
  copies.strays++;
  return stray.data;
}

const unsigned char* StackWalker::frame_bytes(uint64_t address) noexcept {
  Copies& copies = *copies_;
  const Fetched& fetched = *copies.fetched_now;
  auto is_in = [&](uint64_t from, uint32_t bytes) noexcept {
    return address >= from && address - from + frame_bytes_ <= bytes;
  };
  if (is_in(fetched.chunk_from, fetched.chunk_bytes)) {
    return fetched.bytes + fetched.chunk_at + (address - fetched.chunk_from);
  }
  for (uint32_t i = 0; i < copies.chunks; i++) {
    Copies::Chunk& chunk = copies.chunk_copy[i];
    if (is_in(chunk.from, chunk.bytes)) return chunk.data + (address - chunk.from);
  }
  for (uint32_t i = 0; i < fetched.strays; i++) {
    if (fetched.stray_address[i] == address) {
      return fetched.bytes + fetched.stray_at + i * frame_bytes_;
    }
  }
  late_ = true;
  const unsigned char* bytes = copies.chunk != 0 ? copy_chunk(address) : nullptr;
  return bytes != nullptr ? bytes : copy_stray(address);
}

bool StackWalker::follow(uint64_t frame, Chain* chain) noexcept {
  chain->nodes = chain->frames = 0;
  chain->cut = false;
  while (frame != 0) {
    if (chain->frames == kMaxStackDepth || chain->nodes == kMaxNodes) {
      chain->cut = true;
      return true;
    }
    if (frame % 8 != 0) return false;
    const unsigned char* bytes = frame_bytes(frame);
    if (bytes == nullptr) return false;
    Node& node = chain->node[chain->nodes++];
    node.address = frame;
    bool is_shim = at(kFrameOwner) != 0 && pilotlight_is_shim(bytes[at(kFrameOwner)]);
    node.code =
        is_shim ? 0
                : pilotlight_code_of(python_.version, value_at<uint64_t>(bytes, at(kFrameCode)));
    node.instruction = python_.version < 0x030b0000
                           ? value_at<uint32_t>(bytes, at(kFrameInstruction))
                           : value_at<uint64_t>(bytes, at(kFrameInstruction));
    if (is_shim) {
      node.instruction = 0;
    } else if (node.code == 0 || node.code % 8 != 0) {
      return false;
    } else {
      chain->frames++;
    }
    frame = value_at<uint64_t>(bytes, at(kFramePrevious));
  }
  return true;
}

// Next time: the newest chunk up to a little above the leaf, and the frames outside of chunks.
void StackWalker::remember(const Chain& chain, WalkHint* hint) const noexcept {
  const Copies& copies = *copies_;
  const Fetched& fetched = *copies.fetched_now;
  uint64_t base = copies.chunk;
  uint64_t top = 0;
  hint->strays = 0;
  for (uint32_t i = 0; i < chain.nodes; i++) {
    uint64_t address = chain.node[i].address;
    auto is_in = [&](uint64_t from, uint32_t bytes) noexcept {
      return address >= from && address - from < bytes;
    };
    bool in_chunk = is_in(fetched.chunk_from, fetched.chunk_bytes);
    for (uint32_t j = 0; j < copies.chunks; j++) {
      in_chunk = in_chunk || is_in(copies.chunk_copy[j].from, copies.chunk_copy[j].bytes);
    }
    // The newest chunk is the one with the newest frame that lies in any.
    if (in_chunk && top == 0) top = address;
    if (!in_chunk && hint->strays < WalkHint::kMaxStrays) hint->stray[hint->strays++] = address;
  }
  uint64_t before = hint->chunk_from + hint->chunk_bytes;
  hint->chunk_from = 0;
  if (top == 0 || top < base || top - base > kMaxChunkSpan) return;
  // Chunks are whole pages, so up to the end of a frame's page there is something to read.
  uint64_t end = top + frame_bytes_;
  uint64_t page_end = (end + kPage - 1) / kPage * kPage;
  end = std::min(end + kChunkMarginBytes, page_end);
  if (base == hint->chunk_base && before - end < WalkHint::kMaxChunkBytes / 2) {
    end = std::max(end, before - kForgottenBytes);
  }
  hint->chunk_base = base;
  hint->chunk_from = std::max(base, end - std::min<uint64_t>(end, WalkHint::kMaxChunkBytes));
  hint->chunk_bytes = static_cast<uint32_t>(end - hint->chunk_from);
}

bool StackWalker::walk(uint32_t leaf, uint32_t frames, WalkHint* hint, Chain* chain,
                       bool* late) noexcept {
  uint64_t frame = 0;
  late_ = false;
  copies_->fetched_now = &copies_->fetched[frames];
  bool whole = copies_->fetched[frames].address != 0 &&
               first_frame(copies_->fetched[leaf], hint, &frame) && follow(frame, chain);
  *late = late_;
  if (whole) {
    remember(*chain, hint);
  } else {
    *hint = {};
  }
  return whole;
}

}  // namespace pilotlight
