// native/probe/stack_interner.h: gives chains of frames their ids, cheaply if they were seen
// before.
#pragma once

#include <cstdint>

#include "probe/code_object.h"
#include "probe/stack_walk.h"
#include "ring/definitions.h"

namespace pilotlight {

enum class Interned {
  kKnown,   // all code objects were known already and are still the same
  kFresh,   // some were read now: believe it only if the frames are still there afterwards
  kBroken,  // something in the chain is no code object, or an instruction lies outside of its code
};

class StackInterner {
 public:
  StackInterner() = default;
  ~StackInterner();
  StackInterner(const StackInterner&) = delete;
  StackInterner& operator=(const StackInterner&) = delete;

  bool open(const StackWalker& walker, Definitions* definitions) noexcept;

  // The code objects that were looked at of late, for a fetch to bring along; and what it brought.
  void ask_codes(StackWalker::More* more) noexcept;
  void hear_codes(const StackWalker::More& more, uint64_t epoch) noexcept;

  // Within an epoch each code object is looked at once. `*stack` is 0 if the arena is full.
  Interned intern(const Chain& chain, uint64_t epoch, uint32_t* stack) noexcept;

 private:
  struct Code;
  struct Tables;

  // A stack on its way from the root to the leaf.
  struct Growing {
    uint32_t id = 0;
    bool is_fresh = false;
    bool is_lost = false;  // the arena is full: it stays without an id
  };

  Code* find_code(uint64_t address) noexcept;
  Code* code_at(uint64_t address) noexcept;
  bool check_codes(const Chain& chain, uint32_t nodes, uint64_t epoch, bool* fresh) noexcept;
  bool check_batch(const uint64_t* addresses, uint32_t count, uint64_t epoch, bool* fresh) noexcept;
  bool is_due(const Code& code, uint64_t epoch) const noexcept;
  bool check_texts(Code* const* codes, uint32_t count, bool* fresh) noexcept;
  bool learn(Code* code, const CodeIdentity& identity) noexcept;
  bool frame_of(const Node& node, Code* code, uint32_t* frame, bool* fresh) noexcept;
  uint32_t stack_of(uint32_t parent, uint32_t frame) noexcept;
  bool add_frame(const Node& node, uint64_t epoch, Growing* stack) noexcept;
  bool add_callers(const Chain& chain, uint64_t epoch, Growing* stack) noexcept;

  CodeReader reader_;
  Definitions* definitions_ = nullptr;
  bool has_numbers_ = false;  // a code object can be told by a number alone
  uint32_t generations_ = 0;
  uint32_t asks_ = 0;
  uint32_t lates_ = 0;  // code objects that had to be read by themselves since the last layout
  uint64_t late_[CodeReader::kMaxBatch] = {};
  CodeReader::Batch asked_;
  Tables* tables_ = nullptr;
};

}  // namespace pilotlight
