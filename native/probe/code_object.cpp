// native/probe/code_object.cpp
#include "probe/code_object.h"

#include <algorithm>
#include <new>

#include "probe/line_table.h"
#include "probe/stack_walk.h"

namespace pilotlight {
namespace {

constexpr uint32_t kMaxCodeBytes = 256;
constexpr uint32_t kMaxMergeBytes = 4096;
constexpr uint32_t kTextHeadBytes = 80;
constexpr uint32_t kMaxTableBytes = 256 * 1024;
constexpr uint32_t kMaxUnicodeBytes = kMaxStringBytes * 4;

uint64_t mix(uint64_t hash, uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

uint64_t mix_bytes(uint64_t hash, const unsigned char* bytes, uint32_t count) noexcept {
  for (uint32_t i = 0; i + 8 <= count; i += 8) hash = mix(hash, value_at<uint64_t>(bytes, i));
  return hash;
}

// Appends one code point; a lone surrogate becomes the replacement character.
uint32_t put_utf8(uint32_t point, char* out) noexcept {
  if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
  if (point < 0x80) {
    out[0] = static_cast<char>(point);
    return 1;
  }
  if (point < 0x800) {
    out[0] = static_cast<char>(0xc0 | (point >> 6));
    out[1] = static_cast<char>(0x80 | (point & 0x3f));
    return 2;
  }
  if (point < 0x10000) {
    out[0] = static_cast<char>(0xe0 | (point >> 12));
    out[1] = static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    out[2] = static_cast<char>(0x80 | (point & 0x3f));
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | (point >> 18));
  out[1] = static_cast<char>(0x80 | ((point >> 12) & 0x3f));
  out[2] = static_cast<char>(0x80 | ((point >> 6) & 0x3f));
  out[3] = static_cast<char>(0x80 | (point & 0x3f));
  return 4;
}

}  // namespace

struct CodeReader::Buffers {
  unsigned char code[kMaxBatch * (kMaxMergeBytes + kMaxCodeBytes)];
  unsigned char text_head[2 * kMaxBatch][kTextHeadBytes];
  unsigned char unicode[kMaxUnicodeBytes];
  char utf8[kMaxStringBytes + 4];
  unsigned char table[kMaxTableBytes];
};

CodeReader::~CodeReader() { delete buffers_; }

bool CodeReader::open(const ProcessMemory& memory, const PythonInfo& python) noexcept {
  memory_ = memory;
  python_ = python;
  const uint32_t* at = python.offsets;
  code_from_ = at[kObjectType];
  uint32_t end =
      std::max({at[kCodeName], at[kCodeFile], at[kCodeLineTable], at[kCodeFirstLine] - 4}) + 8;
  if (end < code_from_ || end - code_from_ > kMaxCodeBytes) return false;
  code_bytes_ = end - code_from_;
  for (uint32_t i : {kCodeName, kCodeFile, kCodeLineTable, kCodeFirstLine}) {
    if (at[i] < code_from_) return false;
  }
  if (at[kCodeSize] != 0 && (at[kCodeSize] < code_from_ || at[kCodeSize] + 8 > end)) return false;
  if (at[kUnicodeState] + 4 > kTextHeadBytes || at[kUnicodeLength] + 8 > kTextHeadBytes)
    return false;
  if (buffers_ == nullptr) buffers_ = new (std::nothrow) Buffers;
  return buffers_ != nullptr;
}

CodeIdentity CodeReader::identity_of(uint64_t code, const unsigned char* bytes) const noexcept {
  const uint32_t* at = python_.offsets;
  uint64_t code_type = at[kCodeTypeLow] | uint64_t{at[kCodeTypeHigh]} << 32;
  CodeIdentity identity;
  if (value_at<uint64_t>(bytes, 0) != code_type) return identity;
  identity.name = value_at<uint64_t>(bytes, at[kCodeName] - code_from_);
  identity.file = value_at<uint64_t>(bytes, at[kCodeFile] - code_from_);
  identity.line_table = value_at<uint64_t>(bytes, at[kCodeLineTable] - code_from_);
  identity.first_line = value_at<uint32_t>(bytes, at[kCodeFirstLine] - code_from_);
  if (at[kCodeSize] != 0) {
    uint64_t units = value_at<uint64_t>(bytes, at[kCodeSize] - code_from_);
    if (units > (1u << 28)) return CodeIdentity{};
    identity.code_bytes = static_cast<uint32_t>(units) * 2;
    identity.instructions = code + at[kCodeInstructions];
  }
  // The code that runs between a class and its __init__ has no line and its name as its file.
  identity.is_shim = identity.first_line == 0 && identity.name == identity.file;
  // From the first line on all fields up to the tables are fixed at birth, and from 3.12 on there
  // is a number among them that no two code objects share.
  uint32_t fixed = at[kCodeFirstLine] - code_from_;
  uint64_t hash = mix(mix(code, identity.first_line), identity.code_bytes);
  hash = mix(mix(mix(hash, identity.name), identity.file), identity.line_table);
  hash = mix_bytes(hash, bytes + fixed, code_bytes_ - fixed);
  identity.hash = hash == 0 ? 1 : hash;
  return identity;
}

void CodeReader::lay_out(const uint64_t* codes, uint32_t count, Batch* out) const noexcept {
  // Code objects of one module lie close together, and what a read costs is its spans, not its
  // bytes.
  uint32_t order[kMaxBatch];
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  std::sort(order, order + count, [&](uint32_t a, uint32_t b) { return codes[a] < codes[b]; });
  out->count = count;
  out->spans = out->bytes = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = order[i];
    uint64_t from = codes[at] + code_from_;
    Span* last = out->spans != 0 ? &out->span[out->spans - 1] : nullptr;
    out->code[at] = codes[at];
    if (last == nullptr || from < last->address || from - last->address > kMaxMergeBytes) {
      out->span[out->spans++] = {from, nullptr, code_bytes_};
      out->place[at] = out->bytes;
      out->bytes += code_bytes_;
    } else {
      auto into = static_cast<uint32_t>(from - last->address);
      out->place[at] = out->bytes - last->bytes + into;
      uint32_t grown = std::max(last->bytes, into + code_bytes_);
      out->bytes += grown - last->bytes;
      last->bytes = grown;
    }
  }
}

void CodeReader::identify(const uint64_t* codes, uint32_t count, CodeIdentity* out) noexcept {
  Batch batch;
  lay_out(codes, count, &batch);
  unsigned char* to = buffers_->code;
  for (uint32_t i = 0; i < batch.spans; i++) {
    batch.span[i].to = to;
    to += batch.span[i].bytes;
  }
  bool together = memory_.read_all(batch.span, batch.spans);
  for (uint32_t i = 0; i < count; i++) {
    unsigned char alone[kMaxCodeBytes];
    if (together) {
      out[i] = identify(batch, i, buffers_->code);
    } else if (memory_.read(codes[i] + code_from_, alone, code_bytes_)) {
      out[i] = identity_of(codes[i], alone);
    } else {
      out[i] = {};
    }
  }
}

void CodeReader::text_hashes(const CodeIdentity* codes, uint32_t count, uint64_t* out) noexcept {
  Span spans[2 * kMaxBatch];
  uint32_t place[2 * kMaxBatch];
  uint32_t used = 0;
  auto add = [&](uint64_t address) noexcept -> uint32_t {
    for (uint32_t i = 0; i < used; i++) {
      if (spans[i].address == address) return i;
    }
    spans[used] = {address, buffers_->text_head[used], kTextHeadBytes};
    return used++;
  };
  for (uint32_t i = 0; i < count; i++) {
    place[2 * i] = add(codes[i].name);
    place[2 * i + 1] = add(codes[i].file);
  }
  bool together = memory_.read_all(spans, used);
  for (uint32_t i = 0; i < used && !together; i++) {
    if (!memory_.read_all(&spans[i], 1)) std::memset(spans[i].to, 0, kTextHeadBytes);
  }
  for (uint32_t i = 0; i < count; i++) {
    out[i] = 0;
    for (uint32_t text : {place[2 * i], place[2 * i + 1]}) {
      const unsigned char* head = buffers_->text_head[text];
      uint64_t length = value_at<uint64_t>(head, python_.offsets[kUnicodeLength]);
      uint32_t data = std::min(python_.offsets[kUnicodeAsciiData], kTextHeadBytes);
      uint64_t bytes = std::min<uint64_t>(length, kTextHeadBytes - data);
      out[i] = mix(out[i], length);
      for (uint32_t j = 0; j < bytes; j++) out[i] = mix(out[i], head[data + j]);
    }
  }
}

bool CodeReader::text_of(uint64_t object, std::string_view* text) noexcept {
  const uint32_t* at = python_.offsets;
  unsigned char head[kTextHeadBytes];
  uint32_t head_bytes = std::max(at[kUnicodeState] + 4, at[kUnicodeLength] + 8);
  if (!memory_.read(object, head, head_bytes)) return false;
  // From the least bit on, 3.10 to 3.14: interned 2, kind 3, compact 1, ascii 1.
  uint32_t state = value_at<uint32_t>(head, at[kUnicodeState]);
  uint32_t kind = (state >> 2) & 7;
  bool is_compact = (state >> 5) & 1;
  bool is_ascii = (state >> 6) & 1;
  uint64_t length = value_at<uint64_t>(head, at[kUnicodeLength]);
  if (!is_compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  uint32_t points = static_cast<uint32_t>(std::min<uint64_t>(length, kMaxStringBytes));
  uint64_t data = object + (is_ascii ? at[kUnicodeAsciiData] : at[kUnicodeCompactData]);
  if (points != 0 && !memory_.read(data, buffers_->unicode, points * kind)) return false;
  uint32_t used = 0;
  for (uint32_t i = 0; i < points; i++) {
    uint32_t point = kind == 1   ? buffers_->unicode[i]
                     : kind == 2 ? value_at<uint16_t>(buffers_->unicode, 2 * i)
                                 : value_at<uint32_t>(buffers_->unicode, 4 * i);
    if (point > 0x10ffff || (is_ascii && point > 0x7f)) return false;
    char encoded[4];
    uint32_t bytes = put_utf8(point, encoded);
    if (used + bytes > kMaxStringBytes) break;
    std::memcpy(buffers_->utf8 + used, encoded, bytes);
    used += bytes;
  }
  *text = {buffers_->utf8, used};
  return true;
}

bool CodeReader::function(const CodeIdentity& code, std::string_view* text) noexcept {
  return text_of(code.name, text);
}

bool CodeReader::file(const CodeIdentity& code, std::string_view* text) noexcept {
  return text_of(code.file, text);
}

bool CodeReader::offset(const CodeIdentity& code, uint64_t instruction,
                        uint32_t* offset) const noexcept {
  if (code.instructions == 0) {  // 3.10: an index, -1 before the first instruction
    auto index = static_cast<int32_t>(instruction);
    if (index < -1 || index > (1 << 28)) return false;
    *offset = index < 0 ? 0 : static_cast<uint32_t>(index) * 2;
    return true;
  }
  // A frame that has not started yet points to before the first instruction.
  if (instruction + 2 == code.instructions) instruction += 2;
  uint64_t distance = instruction - code.instructions;
  if (distance >= code.code_bytes || distance % 2 != 0) return false;
  *offset = static_cast<uint32_t>(distance);
  return true;
}

bool CodeReader::line(const CodeIdentity& code, uint32_t offset, uint32_t* line) noexcept {
  uint64_t bytes = 0;
  if (!memory_.read(code.line_table + python_.offsets[kBytesSize], &bytes, 8)) return false;
  *line = 0;
  if (bytes > kMaxTableBytes) return true;
  auto size = static_cast<uint32_t>(bytes);
  if (size != 0 &&
      !memory_.read(code.line_table + python_.offsets[kBytesData], buffers_->table, size)) {
    return false;
  }
  *line = line_at(python_.version, buffers_->table, size, code.first_line, offset);
  return true;
}

}  // namespace pilotlight
