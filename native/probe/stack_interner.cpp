// native/probe/stack_interner.cpp
#include "probe/stack_interner.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

namespace pilotlight {
namespace {

constexpr uint32_t kCodes = 1 << 12;
constexpr uint32_t kFrames = 1 << 14;
constexpr uint32_t kStacks = 1 << 14;
constexpr uint32_t kPaths = 1 << 10;
constexpr uint32_t kProbes = 8;
// A code object that was the same this often has its texts compared only once in so many epochs:
// all of them in the same one, so that it takes one read.
constexpr uint32_t kYoungChecks = 32;
constexpr uint32_t kOldPeriod = 16;
// So often the code objects to bring along are chosen anew, so that those of yesterday go.
constexpr uint32_t kAskPeriod = 128;

uint32_t slot_of(uint64_t key, uint32_t slots) noexcept {
  key *= 0x9e3779b97f4a7c15ull;
  return static_cast<uint32_t>(key >> 40) & (slots - 1);
}

uint32_t round_of(uint64_t epoch) noexcept { return static_cast<uint32_t>(epoch / kOldPeriod); }

uint64_t mix(uint64_t hash, uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 31);
}

}  // namespace

// What every pass looks at comes first, on one cache line.
struct alignas(64) StackInterner::Code {
  uint64_t address = 0;
  uint64_t epoch = 0;       // when it was last looked at
  uint32_t generation = 0;  // unique among all that was learnt, so that old frames do not match
  uint32_t checks = 0;      // how often it was the same
  uint32_t round = 0;       // of kOldPeriod epochs, in which its texts were last compared
  uint32_t function = 0;
  uint32_t file = 0;
  uint64_t text_hash = 0;
  CodeIdentity identity;
};

struct StackInterner::Tables {
  struct Frame {
    uint32_t generation, offset, frame;
  };
  struct Stack {
    uint32_t parent, frame, stack;
  };
  // The callers of a leaf, by their code and instructions, and their stack. In the epoch where they
  // were checked that is all; later they are checked again and `generations` must be the same.
  struct Path {
    uint64_t hash, epoch, generations;
    uint32_t stack;
  };
  Path paths[kPaths];
  Code codes[kCodes];
  Frame frames[kFrames];
  Stack stacks[kStacks];
};

StackInterner::~StackInterner() { std::free(tables_); }

bool StackInterner::open(const StackWalker& walker, Definitions* definitions) noexcept {
  definitions_ = definitions;
  if (!reader_.open(walker.memory(), walker.python())) return false;
  has_numbers_ = CodeReader::has_unique_number(walker.python().version);
  // Zeros as the kernel gives them: most of its 250 pages are never touched.
  static_assert(std::is_trivially_destructible_v<Tables>);
  if (tables_ == nullptr) tables_ = static_cast<Tables*>(std::calloc(1, sizeof(Tables)));
  return tables_ != nullptr;
}

StackInterner::Code* StackInterner::find_code(uint64_t address) noexcept {
  uint32_t slot = slot_of(address, kCodes);
  for (uint32_t i = 0; i < kProbes; i++) {
    Code* code = &tables_->codes[(slot + i) & (kCodes - 1)];
    if (code->address == address) return code;
  }
  return nullptr;
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
  // What was read belongs to this code object only if it was there before and after.
  CodeIdentity again;
  reader_.identify(&code->address, 1, &again);
  if (again.hash != identity.hash) return false;
  code->checks = 0;
  reader_.text_hashes(&identity, 1, &code->text_hash);
  code->identity = identity;
  code->generation = ++generations_;
  code->function = function;
  code->file = file;
  return true;
}

bool StackInterner::check_batch(const uint64_t* addresses, uint32_t count, uint64_t epoch,
                                bool* fresh) noexcept {
  CodeIdentity identities[CodeReader::kMaxBatch];
  Code* doubtful[CodeReader::kMaxBatch];
  uint32_t doubts = 0;
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
    } else {
      if (is_due(*code, epoch)) doubtful[doubts++] = code;
      code->checks++;
    }
    code->epoch = epoch;
    code->round = round_of(epoch);
    if (lates_ < CodeReader::kMaxBatch) late_[lates_++] = code->address;
  }
  return check_texts(doubtful, doubts, fresh);
}

// Where no number tells a code object: whether its texts are to be compared this time.
bool StackInterner::is_due(const Code& code, uint64_t epoch) const noexcept {
  return !has_numbers_ && (code.checks < kYoungChecks || code.round != round_of(epoch));
}

void StackInterner::ask_codes(StackWalker::More* more) noexcept {
  if (++asks_ % kAskPeriod == 0) asked_.count = 0;
  if (lates_ != 0 || asked_.count == 0) {
    uint64_t codes[CodeReader::kMaxBatch];
    uint32_t count = 0;
    for (uint32_t i = 0; i < lates_; i++) codes[count++] = late_[i];
    for (uint32_t i = 0; i < asked_.count && count < CodeReader::kMaxBatch; i++) {
      if (std::find(codes, codes + count, asked_.code[i]) == codes + count) {
        codes[count++] = asked_.code[i];
      }
    }
    reader_.lay_out(codes, count, &asked_);
    lates_ = 0;
  }
  // They are looked up behind the system call, each on a line that went cold since the last pass.
  for (uint32_t i = 0; i < asked_.count; i++) {
    __builtin_prefetch(&tables_->codes[slot_of(asked_.code[i], kCodes)]);
  }
  *more = {};
  if (asked_.bytes <= StackWalker::kMaxMoreBytes) *more = {asked_.span, asked_.spans, 0, nullptr};
}

void StackInterner::hear_codes(const StackWalker::More& more, uint64_t epoch) noexcept {
  if (more.bytes == nullptr) {
    // One of them may be gone, and would spoil the next fetch too.
    asked_.count = asked_.spans = asked_.bytes = 0;
    return;
  }
  for (uint32_t i = 0; i < asked_.count && more.count != 0; i++) {
    Code* code = find_code(asked_.code[i]);
    if (code == nullptr || is_due(*code, epoch)) continue;
    if (reader_.identify(asked_, i, more.bytes).hash != code->identity.hash) continue;
    code->checks++;
    code->epoch = epoch;
  }
}

bool StackInterner::check_texts(Code* const* codes, uint32_t count, bool* fresh) noexcept {
  if (count == 0) return true;
  CodeIdentity identities[CodeReader::kMaxBatch];
  uint64_t hashes[CodeReader::kMaxBatch];
  for (uint32_t i = 0; i < count; i++) identities[i] = codes[i]->identity;
  reader_.text_hashes(identities, count, hashes);
  for (uint32_t i = 0; i < count; i++) {
    if (hashes[i] == codes[i]->text_hash) continue;
    *fresh = true;
    if (!learn(codes[i], identities[i])) {
      *codes[i] = Code{};
      return false;
    }
  }
  return true;
}

// Looks at those of the newest `nodes` code objects that were not yet looked at in this epoch.
bool StackInterner::check_codes(const Chain& chain, uint32_t nodes, uint64_t epoch,
                                bool* fresh) noexcept {
  uint64_t batch[CodeReader::kMaxBatch];
  uint32_t count = 0;
  for (uint32_t i = 0; i < nodes; i++) {
    uint64_t address = chain.node[i].code;
    if (address == 0 || code_at(address)->epoch == epoch) continue;
    if (std::find(batch, batch + count, address) != batch + count) continue;
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
  if (!reader_.line(code->identity, offset, &line)) return false;
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

bool StackInterner::add_frame(const Node& node, uint64_t epoch, Growing* stack) noexcept {
  if (node.code == 0 || stack->is_lost) return true;
  Code* code = code_at(node.code);
  // More code objects in one stack than the table can hold side by side.
  if (code->epoch != epoch) return false;
  if (code->identity.is_shim) return true;
  uint32_t frame = 0;
  if (!frame_of(node, code, &frame, &stack->is_fresh)) return false;
  stack->id = frame != 0 ? stack_of(stack->id, frame) : 0;
  stack->is_lost = stack->id == 0;
  return true;
}

bool StackInterner::add_callers(const Chain& chain, uint64_t epoch, Growing* stack) noexcept {
  uint64_t hash = chain.nodes;
  for (uint32_t i = 1; i < chain.nodes; i++) {
    hash = mix(mix(hash, chain.node[i].code), chain.node[i].instruction);
  }
  auto& path = tables_->paths[slot_of(hash, kPaths)];
  bool is_known = path.hash == hash && path.stack != 0;
  if (is_known && path.epoch == epoch) {
    stack->id = path.stack;
    return true;
  }
  if (!check_codes(chain, chain.nodes, epoch, &stack->is_fresh)) return false;
  uint64_t generations = 0;
  for (uint32_t i = 1; i < chain.nodes; i++) {
    if (chain.node[i].code == 0) continue;
    generations = mix(generations, code_at(chain.node[i].code)->generation);
  }
  if (is_known && path.generations == generations) {
    path.epoch = epoch;
    stack->id = path.stack;
    return true;
  }
  for (uint32_t i = chain.nodes; i-- > 1;) {
    if (!add_frame(chain.node[i], epoch, stack)) return false;
  }
  path = {hash, epoch, generations, stack->id};
  return true;
}

Interned StackInterner::intern(const Chain& chain, uint64_t epoch, uint32_t* id) noexcept {
  *id = 0;
  if (chain.nodes == 0) return Interned::kKnown;
  Growing stack;
  if (!add_callers(chain, epoch, &stack)) return Interned::kBroken;
  if (!check_codes(chain, 1, epoch, &stack.is_fresh)) return Interned::kBroken;
  if (!add_frame(chain.node[0], epoch, &stack)) return Interned::kBroken;
  *id = stack.id;
  return stack.is_fresh ? Interned::kFresh : Interned::kKnown;
}

}  // namespace pilotlight
