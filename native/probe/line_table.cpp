// native/probe/line_table.cpp: the two formats, PEP 626 (3.10) and PEP 657 (3.11 on).
#include "probe/line_table.h"

namespace pilotlight {
namespace {

constexpr uint32_t kCodeUnitBytes = 2;

// 3.10: pairs of (bytes of code, signed change of line); -128 marks code without a line.
uint32_t line_in_pairs(const unsigned char* table, uint32_t bytes, uint32_t first_line,
                       uint32_t offset) noexcept {
  int64_t line = first_line;
  uint64_t end = 0;
  for (uint32_t i = 0; i + 1 < bytes; i += 2) {
    auto change = static_cast<signed char>(table[i + 1]);
    end += table[i];
    if (change != -128) line += change;
    if (offset < end) return change == -128 || line < 0 ? 0 : static_cast<uint32_t>(line);
  }
  return 0;
}

// A number in groups of six bits, least first; bit 6 says that another group follows.
uint32_t read_varint(const unsigned char* table, uint32_t bytes, uint32_t at) noexcept {
  uint32_t value = 0;
  for (uint32_t shift = 0; at < bytes && shift < 30; shift += 6, at++) {
    value |= (table[at] & 0x3fu) << shift;
    if ((table[at] & 0x40) == 0) break;
  }
  return value;
}

int64_t signed_of(uint32_t varint) noexcept {
  int64_t magnitude = varint >> 1;
  return (varint & 1) != 0 ? -magnitude : magnitude;
}

// 3.11: entries of a head byte (bit 7, four bits of kind, three of length - 1) and bytes below 128.
uint32_t line_in_entries(const unsigned char* table, uint32_t bytes, uint32_t first_line,
                         uint32_t offset) noexcept {
  constexpr unsigned kNoLine = 15, kLong = 14, kNoColumns = 13, kOneLineFirst = 10;
  int64_t line = first_line;
  uint64_t end = 0;
  uint32_t i = 0;
  while (i < bytes) {
    unsigned kind = (table[i] >> 3) & 15;
    end += ((table[i] & 7u) + 1) * kCodeUnitBytes;
    if (kind == kLong || kind == kNoColumns) {
      line += signed_of(read_varint(table, bytes, i + 1));
    } else if (kind >= kOneLineFirst && kind < kNoColumns) {
      line += kind - kOneLineFirst;
    }
    if (offset < end) return kind == kNoLine || line < 0 ? 0 : static_cast<uint32_t>(line);
    do i++;
    while (i < bytes && (table[i] & 0x80) == 0);
  }
  return 0;
}

}  // namespace

uint32_t line_at(uint32_t python_version, const unsigned char* table, uint32_t bytes,
                 uint32_t first_line, uint32_t offset) noexcept {
  return python_version < 0x030b0000 ? line_in_pairs(table, bytes, first_line, offset)
                                     : line_in_entries(table, bytes, first_line, offset);
}

}  // namespace pilotlight
