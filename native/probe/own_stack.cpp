// native/probe/own_stack.cpp
#define PY_SSIZE_T_CLEAN
#include <Python.h>
// Python.h first: it decides on the feature macros.
#include <string.h>
#include <unistd.h>

#include <new>

#include "probe/own_stack.h"
#include "probe/python_offsets.h"

namespace pilotlight {
namespace {

// Code objects die and others take their addresses: what is known is looked at again after this.
constexpr int64_t kEpochNs = int64_t{30} * 1000000000;
// A hash over more would cost more than the launch; two stacks that differ only further out are
// rare, and then the first one's callers are shown.
constexpr uint32_t kHashedFrames = 128;
constexpr uint32_t kMostBroken = 256;

template <typename T>
T load(uint64_t address) noexcept {
  T value;
  memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));
  return value;
}

// Both in one multiplication: not linear, or a call that moves on in two frames could look the
// same.
uint64_t mixed(uint64_t code, uint64_t instruction) noexcept {
  unsigned __int128 product = static_cast<unsigned __int128>(code ^ 0x9e3779b97f4a7c15ull) *
                              (instruction ^ 0xbf58476d1ce4e5b9ull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

struct OwnStack::Slow {
  StackWalker walker;
  StackInterner interner;
  Chain chain;
  uint32_t broken = 0;  // that could not be read in this epoch
  uint32_t broken_epoch = 0;
};

bool OwnStack::open(const PythonInfo& python, Definitions* definitions) noexcept {
  if (python.version == 0) return false;
  // Anew in a forked child: the ids in it are the parent's.
  delete slow_;
  slow_ = new (std::nothrow) Slow;
  if (entries_ == nullptr) entries_ = new (std::nothrow) Entry[kEntries]();
  if (slow_ == nullptr || entries_ == nullptr) return false;
  for (uint32_t i = 0; i < kEntries; i++) entries_[i].check.store(0, std::memory_order_relaxed);
  busy_.clear();
  python_ = python;
  has_cframe_ = python.version >= 0x030b0000 && python.version < 0x030d0000;
  return slow_->walker.open(ProcessMemory(getpid()), python) &&
         slow_->interner.open(slow_->walker, definitions);
}

void OwnStack::tell_time(int64_t now_ns) noexcept {
  epoch_.store(static_cast<uint32_t>(now_ns / kEpochNs) + 1, std::memory_order_relaxed);
}

uint64_t OwnStack::leaf() const noexcept {
  auto thread = reinterpret_cast<uint64_t>(PyGILState_GetThisThreadState());
  if (thread == 0) return 0;
  uint64_t frame = load<uint64_t>(thread + python_.offsets[kThreadFrame]);
  if (!has_cframe_ || frame == 0) return frame;
  return load<uint64_t>(frame + python_.offsets[kCframeCurrent]);
}

uint32_t OwnStack::take() noexcept {
  uint64_t first = leaf();
  if (first == 0) return 0;
  uint32_t code_at = python_.offsets[kFrameCode];
  uint32_t instruction_at = python_.offsets[kFrameInstruction];
  uint32_t previous_at = python_.offsets[kFramePrevious];
  uint64_t hash = 1;
  uint64_t frame = first;
  for (uint32_t i = 0; frame != 0 && i < kHashedFrames; i++) {
    // Only this addition waits for the frame before: the CPU is at the next frame meanwhile.
    hash =
        hash * 5 + mixed(load<uint64_t>(frame + code_at), load<uint64_t>(frame + instruction_at));
    frame = load<uint64_t>(frame + previous_at);
  }
  uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  Entry& entry = entries_[(hash >> 40) & (kEntries - 1)];
  uint64_t value = entry.value.load(std::memory_order_relaxed);
  if ((entry.check.load(std::memory_order_relaxed) ^ value) == hash && value >> 32 == epoch) {
    return static_cast<uint32_t>(value);
  }
  return intern(first, hash, epoch);
}

uint32_t OwnStack::intern(uint64_t frame, uint64_t hash, uint32_t epoch) noexcept {
  if (busy_.test_and_set(std::memory_order_acquire)) return 0;
  Chain& chain = slow_->chain;
  chain.nodes = chain.frames = 0;
  chain.cut = false;
  for (; frame != 0; frame = load<uint64_t>(frame + python_.offsets[kFramePrevious])) {
    if (chain.frames == kMaxStackDepth || chain.nodes == kMaxNodes) {
      chain.cut = true;
      break;
    }
    Node& node = chain.node[chain.nodes++];
    uint32_t owner_at = python_.offsets[kFrameOwner];
    bool is_shim = owner_at != 0 && pilotlight_is_shim(load<uint8_t>(frame + owner_at));
    uint64_t instruction = frame + python_.offsets[kFrameInstruction];
    node = {frame, 0, 0};
    if (is_shim) continue;
    node.code =
        pilotlight_code_of(python_.version, load<uint64_t>(frame + python_.offsets[kFrameCode]));
    node.instruction =
        python_.version < 0x030b0000 ? load<uint32_t>(instruction) : load<uint64_t>(instruction);
    chain.frames++;
  }
  uint32_t stack = 0;
  // Our own frames stand still, so what was read for the first time is true as well.
  if (slow_->interner.intern(chain, epoch, &stack) == Interned::kBroken) {
    stack = 0;
    // A read that failed once need not fail again; one that always does is not tried at each
    // launch.
    if (slow_->broken_epoch != epoch) slow_->broken = 0;
    slow_->broken_epoch = epoch;
    if (slow_->broken++ < kMostBroken) {
      busy_.clear(std::memory_order_release);
      return 0;
    }
  }
  Entry& entry = entries_[(hash >> 40) & (kEntries - 1)];
  uint64_t value = uint64_t{epoch} << 32 | stack;
  entry.value.store(value, std::memory_order_relaxed);
  entry.check.store(hash ^ value, std::memory_order_relaxed);
  busy_.clear(std::memory_order_release);
  return stack;
}

}  // namespace pilotlight
