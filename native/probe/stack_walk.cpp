// native/probe/stack_walk.cpp
#include "probe/stack_walk.h"

#include <algorithm>
#include <new>

namespace pilotlight {
namespace {

constexpr uint32_t kMaxThreadBytes = 1024;
constexpr uint32_t kMaxFrameBytes = 256;
constexpr uint32_t kMaxInterpreterOffset = 1 << 20;
constexpr uint32_t kMaxInterpreters = 64;
constexpr uint32_t kMaxThreads = 4096;
constexpr uint32_t kChunkHeaderBytes = 24;
// Four frames or so more than last time: a call or two does not need another read.
constexpr uint32_t kChunkMarginBytes = 512;
constexpr uint8_t kOwnedByCStack = 3;

}  // namespace

// Private copies of one walk. Nothing in them is believed but that it was there once.
struct StackWalker::Copies {
  static constexpr uint32_t kChunkBytes = 64 * 1024;
  static constexpr uint32_t kMaxChunks = 4;

  struct Chunk {
    uint64_t base;  // of the chunk; the copy starts at `from`
    uint64_t from;
    uint32_t bytes;
    unsigned char data[kChunkBytes];
  };
  struct Stray {
    uint64_t address;
    unsigned char data[kMaxFrameBytes];
  };

  uint64_t chunk;  // the newest chunk of the thread
  uint32_t chunks;
  uint32_t strays;
  unsigned char thread[kMaxThreadBytes];
  unsigned char cframe[16];
  Chunk chunk_copy[kMaxChunks];
  Stray stray[kMaxNodes];
};

StackWalker::~StackWalker() { delete copies_; }

bool StackWalker::open(pid_t pid, const PythonInfo& python) noexcept {
  uint32_t minor = (python.version >> 16) & 0xff;
  if (python.version >> 24 != 3 || minor < 10 || minor > 13) return false;
  python_ = python;
  memory_.open(pid);
  for (uint32_t i = 0; i < kWalkOffsets; i++) {
    if (i == kCodeTypeLow || i == kCodeTypeHigh) continue;
    if (python.offsets[i] > kMaxInterpreterOffset) return false;
  }
  thread_bytes_ = std::max({at(kThreadNext), at(kThreadFrame), at(kThreadNativeId), at(kThreadId),
                            at(kThreadChunk)}) +
                  8;
  frame_bytes_ =
      std::max({at(kFrameCode), at(kFramePrevious), at(kFrameInstruction), at(kFrameOwner)}) + 8;
  if (thread_bytes_ > kMaxThreadBytes || frame_bytes_ > kMaxFrameBytes) return false;
  if (at(kCframeCurrent) > sizeof(Copies::cframe) - 8) return false;
  if (at(kChunkPrevious) > kChunkHeaderBytes - 8 || at(kChunkSize) > kChunkHeaderBytes - 8) {
    return false;
  }
  if (copies_ == nullptr) copies_ = new (std::nothrow) Copies;
  return copies_ != nullptr;
}

uint32_t StackWalker::tid_of(const unsigned char* thread) const noexcept {
  if (at(kThreadNativeId) != 0) {
    return static_cast<uint32_t>(value_at<uint64_t>(thread, at(kThreadNativeId)));
  }
  uint32_t tid = 0;
  if (at(kPthreadTid) == 0) return 0;
  memory_.read(value_at<uint64_t>(thread, at(kThreadId)) + at(kPthreadTid), &tid, sizeof(tid));
  return tid;
}

bool StackWalker::read_gil(uint64_t address, Gil* gil) const noexcept {
  if (address == 0) return false;
  uint32_t from = std::min(at(kGilHolder), at(kGilSwitches));
  uint32_t to = std::max(at(kGilHolder), at(kGilSwitches)) + 8;
  unsigned char bytes[128];
  if (to - from > sizeof(bytes) || !memory_.read(address + from, bytes, to - from)) return false;
  gil->holder = value_at<uint64_t>(bytes, at(kGilHolder) - from);
  gil->switches = value_at<uint64_t>(bytes, at(kGilSwitches) - from);
  return true;
}

// The list as it was last time, read again in one system call; 0 if it has changed since.
uint32_t StackWalker::threads_as_before(ThreadRef* out, uint32_t capacity) noexcept {
  if (knowns_ == 0 || knowns_ > capacity) return 0;
  uint64_t head = 0, next = 0, first = 0, gil = python_.runtime + at(kRuntimeGil);
  Span spans[ProcessMemory::kMaxSpans];
  uint32_t count = 0;
  spans[count++] = {python_.runtime + at(kRuntimeInterpretersHead), &head, 8};
  spans[count++] = {interpreter_ + at(kInterpreterNext), &next, 8};
  spans[count++] = {interpreter_ + at(kInterpreterThreadsHead), &first, 8};
  if (at(kInterpreterGil) != 0) spans[count++] = {interpreter_ + at(kInterpreterGil), &gil, 8};
  uint64_t links[kMaxKnown];
  uint64_t tids[kMaxKnown];
  for (uint32_t i = 0; i < knowns_; i++) {
    spans[count++] = {known_[i] + at(kThreadNext), &links[i], 8};
    spans[count++] = {known_[i] + at(kThreadNativeId), &tids[i], 8};
  }
  if (!memory_.read_all(spans, count)) return 0;
  if (head != interpreter_ || next != 0 || first != known_[0]) return 0;
  for (uint32_t i = 0; i < knowns_; i++) {
    if (links[i] != (i + 1 < knowns_ ? known_[i + 1] : 0)) return 0;
    out[i] = {known_[i], gil, static_cast<uint32_t>(tids[i])};
  }
  return knowns_;
}

uint32_t StackWalker::threads(ThreadRef* out, uint32_t capacity, uint32_t* total) noexcept {
  *total = threads_as_before(out, capacity);
  if (*total != 0) return *total;
  knowns_ = 0;
  uint32_t count = 0;
  uint64_t interpreter = 0;
  memory_.read(python_.runtime + at(kRuntimeInterpretersHead), &interpreter, sizeof(interpreter));
  interpreter_ = interpreter;
  uint32_t interpreters = 0;
  for (; interpreter != 0 && interpreters < kMaxInterpreters; interpreters++) {
    uint64_t next = 0;
    uint64_t gil = python_.runtime + at(kRuntimeGil);
    uint64_t thread = 0;
    Span spans[3] = {{interpreter + at(kInterpreterNext), &next, 8},
                     {interpreter + at(kInterpreterThreadsHead), &thread, 8},
                     {interpreter + at(kInterpreterGil), &gil, 8}};
    if (!memory_.read_all(spans, at(kInterpreterGil) != 0 ? 3 : 2)) return count;
    for (; thread != 0 && *total < kMaxThreads; ++*total) {
      unsigned char bytes[kMaxThreadBytes];
      if (!memory_.read(thread, bytes, thread_bytes_)) return count;
      if (count < capacity) out[count++] = {thread, gil, tid_of(bytes)};
      thread = value_at<uint64_t>(bytes, at(kThreadNext));
    }
    interpreter = next;
  }
  // 3.10 has to look up the tids elsewhere each time.
  if (interpreters == 1 && count <= kMaxKnown && at(kThreadNativeId) != 0) {
    for (uint32_t i = 0; i < count; i++) known_[i] = out[i].address;
    knowns_ = count;
  }
  return count;
}

bool StackWalker::first_frame(const ThreadRef& thread, WalkHint* hint, uint64_t* frame) noexcept {
  Copies& copies = *copies_;
  copies.chunks = copies.strays = 0;
  Span spans[ProcessMemory::kMaxSpans];
  uint32_t count = 0;
  spans[count++] = {thread.address, copies.thread, thread_bytes_};
  if (hint->cframe != 0) spans[count++] = {hint->cframe, copies.cframe, sizeof(copies.cframe)};
  if (hint->chunk != 0) {
    Copies::Chunk& chunk = copies.chunk_copy[copies.chunks++];
    chunk.base = chunk.from = hint->chunk;
    chunk.bytes = hint->chunk_bytes;
    spans[count++] = {chunk.from, chunk.data, chunk.bytes};
  }
  for (uint32_t i = 0; i < hint->strays; i++) {
    Copies::Stray& stray = copies.stray[copies.strays++];
    stray.address = hint->stray[i];
    spans[count++] = {stray.address, stray.data, frame_bytes_};
  }
  uint64_t cframe_copied = hint->cframe;
  if (!memory_.read_all(spans, count)) {
    if (count == 1) return false;
    *hint = {};
    cframe_copied = 0;
    copies.chunks = copies.strays = 0;
    if (!memory_.read_all(spans, 1)) return false;
  }
  copies.chunk = at(kThreadChunk) != 0 ? value_at<uint64_t>(copies.thread, at(kThreadChunk)) : 0;
  *frame = value_at<uint64_t>(copies.thread, at(kThreadFrame));
  bool has_cframe = python_.version >= 0x030b0000 && python_.version < 0x030d0000;
  if (!has_cframe) return true;
  uint64_t cframe = *frame;
  if (cframe == 0) return true;
  if (cframe != cframe_copied && !memory_.read(cframe, copies.cframe, sizeof(copies.cframe))) {
    return false;
  }
  hint->cframe = cframe;
  *frame = value_at<uint64_t>(copies.cframe, at(kCframeCurrent));
  return true;
}

// The bulk read: everything from the start of the chunk to the end of this frame's head, so that
// its callers below come with it.
const unsigned char* StackWalker::copy_chunk(uint64_t address) noexcept {
  Copies& copies = *copies_;
  uint64_t base = copies.chunk;
  for (uint32_t i = 0; base != 0 && i < 64; i++) {
    unsigned char header[kChunkHeaderBytes];
    if (!memory_.read(base, header, sizeof(header))) return nullptr;
    uint64_t size = value_at<uint64_t>(header, at(kChunkSize));
    if (address > base && address - base < size) {
      if (copies.chunks == Copies::kMaxChunks) return nullptr;
      Copies::Chunk& chunk = copies.chunk_copy[copies.chunks];
      uint64_t end = address + frame_bytes_;
      chunk.base = base;
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
  for (uint32_t i = 0; i < copies.chunks; i++) {
    Copies::Chunk& chunk = copies.chunk_copy[i];
    if (address >= chunk.from && address - chunk.from + frame_bytes_ <= chunk.bytes) {
      return chunk.data + (address - chunk.from);
    }
  }
  for (uint32_t i = 0; i < copies.strays; i++) {
    if (copies.stray[i].address == address) return copies.stray[i].data;
  }
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
    bool is_shim = at(kFrameOwner) != 0 && bytes[at(kFrameOwner)] == kOwnedByCStack;
    node.code = is_shim ? 0 : value_at<uint64_t>(bytes, at(kFrameCode));
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
  hint->chunk = 0;
  hint->strays = 0;
  uint64_t top = 0;
  for (uint32_t i = 0; i < chain.nodes; i++) {
    uint64_t address = chain.node[i].address;
    bool in_newest = false;
    bool in_chunk = false;
    for (uint32_t j = 0; j < copies.chunks; j++) {
      const Copies::Chunk& chunk = copies.chunk_copy[j];
      if (address < chunk.from || address - chunk.from >= chunk.bytes) continue;
      in_chunk = true;
      in_newest = chunk.base == copies.chunk && chunk.from == chunk.base;
    }
    if (in_newest) top = std::max(top, address);
    if (!in_chunk && hint->strays < WalkHint::kMaxStrays) hint->stray[hint->strays++] = address;
  }
  if (top == 0) return;
  hint->chunk = copies.chunk;
  uint64_t end = top - copies.chunk + frame_bytes_;
  // Chunks are whole pages, so up to the end of a frame's page there is something to read.
  uint64_t page_end = (top + frame_bytes_ + kPage - 1) / kPage * kPage - copies.chunk;
  hint->chunk_bytes = static_cast<uint32_t>(
      std::min({end + kChunkMarginBytes, page_end, uint64_t{Copies::kChunkBytes}}));
}

bool StackWalker::walk(const ThreadRef& thread, WalkHint* hint, Chain* chain) noexcept {
  uint64_t frame = 0;
  if (!first_frame(thread, hint, &frame) || !follow(frame, chain)) {
    *hint = {};
    return false;
  }
  remember(*chain, hint);
  return true;
}

}  // namespace pilotlight
