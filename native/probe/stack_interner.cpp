// native/probe/stack_interner.cpp
#include "probe/stack_interner.h"

#include <new>

namespace pilotlight {
namespace {

constexpr uint32_t kCodes = 1 << 12;
constexpr uint32_t kFrames = 1 << 14;
constexpr uint32_t kStacks = 1 << 14;
constexpr uint32_t kProbes = 8;

uint32_t slot_of(uint64_t key, uint32_t slots) noexcept {
  key *= 0x9e3779b97f4a7c15ull;
  return static_cast<uint32_t>(key >> 40) & (slots - 1);
}

}  // namespace

struct StackInterner::Code {
  uint64_t address = 0;
  CodeIdentity identity;
  uint64_t epoch = 0;       // when it was last looked at
  uint32_t generation = 0;  // unique among all that was learnt, so that old frames do not match
  uint32_t function = 0;
  uint32_t file = 0;
  bool is_shim = false;
};

struct StackInterner::Tables {
  struct Frame {
    uint32_t generation, offset, frame;
  };
  struct Stack {
    uint32_t parent, frame, stack;
  };
  Code codes[kCodes];
  Frame frames[kFrames];
  Stack stacks[kStacks];
};

StackInterner::~StackInterner() { delete tables_; }

bool StackInterner::open(const StackWalker& walker, Definitions* definitions) noexcept {
  definitions_ = definitions;
  if (!reader_.open(walker.memory(), walker.python())) return false;
  if (tables_ == nullptr) tables_ = new (std::nothrow) Tables();
  return tables_ != nullptr;
}

// The entry of this address, or the one that was not used for longest, emptied for it.
StackInterner::Code* StackInterner::code_at(uint64_t address) noexcept {
  uint32_t slot = slot_of(address, kCodes);
  Code* oldest = nullptr;
  for (uint32_t i = 0; i < kProbes; i++) {
    Code* code = &tables_->codes[(slot + i) & (kCodes - 1)];
    if (code->address == address) return code;
    if (oldest == nullptr || code->epoch < oldest->epoch) oldest = code;
  }
  *oldest = Code{};
  oldest->address = address;
  return oldest;
}

bool StackInterner::learn(Code* code, const CodeIdentity& identity) noexcept {
  std::string_view text;
  if (!reader_.function(identity, &text)) return false;
  uint32_t function = definitions_->string(text);
  if (!reader_.file(identity, &text)) return false;
  uint32_t file = definitions_->string(text);
  uint32_t line = 0;
  bool is_shim = false;
  if (!reader_.line(identity, 0, &line, &is_shim)) return false;
  // What was read belongs to this code object only if it was there before and after.
  CodeIdentity again;
  reader_.identify(&code->address, 1, &again);
  if (again.hash != identity.hash) return false;
  code->identity = identity;
  code->generation = ++generations_;
  code->function = function;
  code->file = file;
  code->is_shim = is_shim;
  return true;
}

bool StackInterner::check_batch(const uint64_t* addresses, uint32_t count, uint64_t epoch,
                                bool* fresh) noexcept {
  CodeIdentity identities[CodeReader::kMaxBatch];
  reader_.identify(addresses, count, identities);
  for (uint32_t i = 0; i < count; i++) {
    if (identities[i].hash == 0) return false;
    Code* code = code_at(addresses[i]);
    if (code->identity.hash != identities[i].hash) {
      *fresh = true;
      if (!learn(code, identities[i])) {
        *code = Code{};
        return false;
      }
    }
    code->epoch = epoch;
  }
  return true;
}

bool StackInterner::check_codes(const Chain& chain, uint64_t epoch, bool* fresh) noexcept {
  uint64_t batch[CodeReader::kMaxBatch];
  uint32_t count = 0;
  for (uint32_t i = 0; i < chain.nodes; i++) {
    uint64_t address = chain.node[i].code;
    if (address == 0) continue;
    Code* code = code_at(address);
    if (code->epoch == epoch) continue;
    bool queued = false;
    for (uint32_t j = 0; j < count && !queued; j++) queued = batch[j] == address;
    if (queued) continue;
    batch[count++] = address;
    if (count < CodeReader::kMaxBatch) continue;
    if (!check_batch(batch, count, epoch, fresh)) return false;
    count = 0;
  }
  return count == 0 || check_batch(batch, count, epoch, fresh);
}

bool StackInterner::frame_of(const Node& node, Code* code, uint32_t* frame, bool* fresh) noexcept {
  uint32_t offset = 0;
  if (!reader_.offset(code->identity, node.instruction, &offset)) return false;
  uint64_t key = uint64_t{code->generation} << 32 | offset;
  auto& known = tables_->frames[slot_of(key, kFrames)];
  if (known.generation == code->generation && known.offset == offset && known.frame != 0) {
    *frame = known.frame;
    return true;
  }
  *fresh = true;
  uint32_t line = 0;
  bool is_shim = false;
  if (!reader_.line(code->identity, offset, &line, &is_shim)) return false;
  *frame = definitions_->frame(code->function, code->file, line, code->identity.first_line);
  known = {code->generation, offset, *frame};
  return true;
}

uint32_t StackInterner::stack_of(uint32_t parent, uint32_t frame) noexcept {
  auto& known = tables_->stacks[slot_of(uint64_t{parent} << 32 | frame, kStacks)];
  if (known.parent == parent && known.frame == frame && known.stack != 0) return known.stack;
  uint32_t stack = definitions_->stack(parent, frame);
  known = {parent, frame, stack};
  return stack;
}

Interned StackInterner::intern(const Chain& chain, uint64_t epoch, uint32_t* stack) noexcept {
  bool fresh = false;
  *stack = 0;
  if (!check_codes(chain, epoch, &fresh)) return Interned::kBroken;
  bool lost = false;
  for (uint32_t i = chain.nodes; i-- > 0;) {
    const Node& node = chain.node[i];
    if (node.code == 0) continue;
    Code* code = code_at(node.code);
    // More code objects in one stack than the table can hold side by side.
    if (code->epoch != epoch) return Interned::kBroken;
    if (code->is_shim) continue;
    uint32_t frame = 0;
    if (!frame_of(node, code, &frame, &fresh)) return Interned::kBroken;
    uint32_t next = frame != 0 && !lost ? stack_of(*stack, frame) : 0;
    lost = lost || next == 0;
    *stack = next;
  }
  return fresh ? Interned::kFresh : Interned::kKnown;
}

}  // namespace pilotlight
