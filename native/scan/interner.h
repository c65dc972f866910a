// native/scan/interner.h: texts to small numbers, bounded in count and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scan/column.h"

namespace pilotlight::scan {

constexpr uint32_t kNoText = UINT32_MAX;

class Interner {
 public:
  // Texts beyond either limit get the number of `overflow`, or kNoText if that is empty.
  Interner(uint32_t most_texts, size_t most_bytes, std::string overflow);

  // The number of this text; kNoText also if there is no memory.
  uint32_t add(std::string_view text);
  std::string_view text(uint32_t number) const;
  uint32_t size() const { return count_; }
  uint64_t overflowed() const { return overflowed_; }
  // Distinct texts that were not clean.
  uint64_t repaired() const { return repaired_; }

 private:
  struct Entry {
    uint64_t offset;
    uint32_t length;
    uint32_t number;  // its own, or that of the text which stands for this one
    uint64_t hash;
  };
  std::string_view characters_of(const Entry& entry) const;
  uint64_t hash(std::string_view text) const;
  uint32_t insert(std::string_view text, uint64_t hash);
  uint32_t full();
  void grow();

  uint32_t most_texts_;
  size_t most_bytes_;
  std::string overflow_;
  uint64_t seed_;
  std::vector<uint32_t> slots_;  // 1 + index in entries_
  Column<Entry> entries_;
  Column<char> characters_;
  std::vector<uint32_t> entry_of_;
  uint32_t count_ = 0;
  uint32_t overflow_number_ = kNoText;
  uint64_t overflowed_ = 0;
  uint64_t repaired_ = 0;
};

}  // namespace pilotlight::scan
