// native/probe/stack_walk.h: follows the frames of a Python thread in memory that may change
// meanwhile.
//
// One walk is only a candidate: the thread may have moved on between two of its reads. Who calls
// decides with stack_snapshot.h whether a walk shows a stack that really was.
#pragma once

#include <cstdint>
#include <cstring>

#include "probe/process_memory.h"
#include "probe/static_memory.h"
#include "ring/layout.h"

namespace pilotlight {

// Frames that are no function of the user's (shims between C and Python) count in the walk only.
constexpr uint32_t kMaxNodes = kMaxStackDepth + 128;

struct Node {
  uint64_t address;
  uint64_t code;         // 0: a shim
  uint64_t instruction;  // address; on 3.10 the index of the last instruction
};

struct Chain {
  uint32_t nodes = 0;   // from the leaf to the root
  uint32_t frames = 0;  // of them, how many are functions
  bool cut = false;     // older frames were left out
  Node node[kMaxNodes];

  Chain() = default;
  // Chains are mostly short: only the nodes in use are copied.
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain& other) noexcept {
    if (this == &other) return *this;
    nodes = other.nodes;
    frames = other.frames;
    cut = other.cut;
    std::memcpy(static_cast<void*>(node), other.node, nodes * sizeof(Node));
    return *this;
  }
};

struct ThreadRef {
  uint64_t address;  // of the PyThreadState
  uint64_t gil;
  uint32_t tid;
  const unsigned char* copy;  // of its state, valid until the next listing; null: none
};

struct Gil {
  uint64_t holder;  // the PyThreadState that has it or had it last
  uint64_t switches;
  bool is_held;

  // Whether nobody else had it in between.
  bool operator==(const Gil& other) const noexcept {
    return holder == other.holder && switches == other.switches;
  }
};

struct ThreadList {
  uint32_t count = 0;
  uint32_t total = 0;  // with those for which there was no room
  Gil gil = {};        // the first interpreter's, as it was before any thread was read
  bool has_gil = false;
  bool is_guess = false;  // see StackWalker::guess()
  uint32_t interpreters = 0;
};

// What the last walk of a thread read, so that the next can ask for it in one system call.
struct WalkHint {
  static constexpr uint32_t kMaxStrays = 48;
  static constexpr uint32_t kMaxChunkBytes = 12 * 1024;
  // 3.11 and 3.12: where the leaf was found, the last first. C code that calls Python (a module of
  // PyTorch, a generator, a sort) has one of its own, so a loop has some.
  static constexpr uint32_t kCframes = 8;
  uint64_t cframe[kCframes];
  // The newest part of the data stack; 0: not known. As deep as it lately was: what one walk has to
  // read by itself costs more than some bytes too many in all.
  uint64_t chunk_from;
  uint64_t chunk_base;  // where that chunk begins
  uint32_t chunk_bytes;
  uint32_t strays;  // frames outside of the data stack: generators, shims, all of them on 3.10
  uint64_t stray[kMaxStrays];

  // Of one walk beside its strays: the thread, its cframes, the chunk.
  static constexpr uint32_t kFixedSpans = 1 + kCframes + 1;
};

class StackWalker {
 public:
  StackWalker() = default;
  ~StackWalker();
  StackWalker(const StackWalker&) = delete;
  StackWalker& operator=(const StackWalker&) = delete;

  // False: not enough memory, or the description makes no sense (it may come from another process).
  bool open(const ProcessMemory& memory, const PythonInfo& python) noexcept;

  // All threads of all interpreters, at most `capacity`.
  ThreadList threads(ThreadRef* out, uint32_t capacity) noexcept;

  // The threads as they were last listed, without a system call. The next fetch looks whether that
  // still holds; before as_guessed() says so nothing that it brought may be believed. False: it has
  // changed already, or cannot be told so.
  static constexpr uint32_t kMaxGuessed = 16;
  bool guess(ThreadRef* out, uint32_t capacity, ThreadList* list) noexcept;
  bool as_guessed() const noexcept { return as_guessed_; }

  // Copies for some walks at once what their hints say, one after the other in one system call,
  // what else is wanted, and at the end the lock. Returns for how many of the walks there was room.
  static constexpr uint32_t kMaxFetched = 14;
  static constexpr uint32_t kMaxMoreBytes = 16 * 1024;
  struct Want {
    ThreadRef thread;
    WalkHint* hint;
  };
  struct More {
    const Span* spans = nullptr;  // each behind the one before, at most kMaxMoreBytes
    uint32_t count = 0;
    uint32_t behind = 0;                   // how many of the walks
    const unsigned char* bytes = nullptr;  // where they are until the next fetch; null: not read
  };
  uint32_t fetch(const Want* wants, uint32_t count, More* more, Gil* after) noexcept;

  // A walk in the copies of the last fetch: from the leaf of one place through the frames of
  // another (of the same thread). What its hint did not cover is read now; `*late` says so. False:
  // a read failed or a link led nowhere.
  bool walk(uint32_t leaf, uint32_t frames, WalkHint* hint, Chain* chain, bool* late) noexcept;

  bool read_gil(uint64_t address, Gil* gil) const noexcept;

  const ProcessMemory& memory() const noexcept { return memory_; }
  const PythonInfo& python() const noexcept { return python_; }
  uint32_t at(uint32_t offset) const noexcept { return python_.offsets[offset]; }

 private:
  static constexpr uint32_t kMaxKnown = 60;
  static_assert(kMaxKnown + 5 <= ProcessMemory::kMaxSpans);
  struct Copies;
  struct Fetched;
  uint32_t span_fetch(const Want& want, Fetched* to, Span* spans) const noexcept;
  void fetch_alone(const Want& want, Fetched* to) noexcept;
  bool first_frame(const Fetched& from, WalkHint* hint, uint64_t* frame) noexcept;
  const unsigned char* frame_bytes(uint64_t address) noexcept;
  const unsigned char* copy_chunk(uint64_t address) noexcept;
  const unsigned char* copy_stray(uint64_t address) noexcept;
  bool follow(uint64_t frame, Chain* chain) noexcept;
  uint32_t tid_of(const unsigned char* thread) const noexcept;
  void remember(const Chain& chain, WalkHint* hint) const noexcept;
  void keep_list(const ThreadRef* threads, uint32_t count) noexcept;
  uint32_t span_list(unsigned char* to, Span* spans) const noexcept;
  bool is_listed(const unsigned char* bytes) const noexcept;
  bool threads_as_before(ThreadRef* out, uint32_t capacity, ThreadList* list) noexcept;
  bool list_interpreter(uint64_t interpreter, ThreadRef* out, uint32_t capacity, ThreadList* list,
                        uint64_t* next) noexcept;
  Gil gil_in(const unsigned char* bytes) const noexcept;

  ProcessMemory memory_;
  PythonInfo python_ = {};
  uint32_t thread_bytes_ = 0;
  uint32_t frame_bytes_ = 0;
  uint32_t gil_bytes_ = 0;
  bool late_ = false;
  bool guessed_ = false;
  bool as_guessed_ = false;
  uint64_t interpreter_ = 0;        // the only one at the last listing
  uint64_t gil_address_ = 0;        // its lock
  uint64_t known_[kMaxKnown] = {};  // its threads in order
  uint32_t known_tid_[kMaxKnown] = {};
  uint32_t knowns_ = 0;
  StaticMemory static_;  // of the runtime: in this process it may be read without a system call
  Copies* copies_ = nullptr;
};

}  // namespace pilotlight
