// native/probe/code_object.h: what a code object says of itself, read from memory nobody trusts.
#pragma once

#include <cstdint>
#include <string_view>

#include "probe/process_memory.h"
#include "ring/layout.h"

namespace pilotlight {

// Tells a code object from a later one at the same address: a hash over what never changes in it.
// From 3.12 on that includes a number which no two code objects share; before, text_hashes() tells
// apart what has the same fields at the same addresses, as code does that is made in a loop.
struct CodeIdentity {
  uint64_t hash = 0;  // 0: it is no code object
  uint64_t name = 0;
  uint64_t file = 0;
  uint64_t line_table = 0;
  uint64_t instructions = 0;  // address of the first, 0 on 3.10
  uint32_t code_bytes = 0;    // 0 on 3.10
  uint32_t first_line = 0;
  bool is_shim = false;  // the interpreter's own, which Python does not show either
};

class CodeReader {
 public:
  CodeReader() = default;
  ~CodeReader();
  CodeReader(const CodeReader&) = delete;
  CodeReader& operator=(const CodeReader&) = delete;

  // False: not enough memory, or the description makes no sense.
  bool open(const ProcessMemory& memory, const PythonInfo& python) noexcept;

  static constexpr uint32_t kMaxBatch = 32;
  static_assert(2 * kMaxBatch <= ProcessMemory::kMaxSpans);
  // Where some code objects are, as few spans that are read one behind the other.
  struct Batch {
    uint32_t count = 0;
    uint32_t spans = 0;
    uint32_t bytes = 0;
    uint64_t code[kMaxBatch];
    uint32_t place[kMaxBatch];  // of each in what was read
    Span span[kMaxBatch];       // without where to
  };
  void lay_out(const uint64_t* codes, uint32_t count, Batch* out) const noexcept;
  CodeIdentity identify(const Batch& batch, uint32_t i, const unsigned char* bytes) const noexcept {
    return identity_of(batch.code[i], bytes + batch.place[i]);
  }

  // The identities of `count` <= kMaxBatch code objects in one system call.
  void identify(const uint64_t* codes, uint32_t count, CodeIdentity* out) noexcept;

  static bool has_unique_number(uint32_t python_version) noexcept {
    return python_version >= 0x030c0000;
  }
  // Over the beginnings of their names and files.
  void text_hashes(const CodeIdentity* codes, uint32_t count, uint64_t* out) noexcept;

  // Both are UTF-8, cut at kMaxStringBytes, and valid until the next call. False: unreadable.
  bool function(const CodeIdentity& code, std::string_view* text) noexcept;
  bool file(const CodeIdentity& code, std::string_view* text) noexcept;

  // The frame's instruction as a byte offset into the code. False: it does not point into it.
  bool offset(const CodeIdentity& code, uint64_t instruction, uint32_t* offset) const noexcept;

  // `*line` is 0 where the table has none.
  bool line(const CodeIdentity& code, uint32_t offset, uint32_t* line) noexcept;

 private:
  struct Buffers;
  bool text_of(uint64_t object, std::string_view* text) noexcept;
  CodeIdentity identity_of(uint64_t code, const unsigned char* bytes) const noexcept;

  ProcessMemory memory_;
  PythonInfo python_ = {};
  uint32_t code_from_ = 0;
  uint32_t code_bytes_ = 0;
  Buffers* buffers_ = nullptr;
};

}  // namespace pilotlight
