// native/drain/definition_reader.h: the reader's half of the arena. Its mirror is
// ring/definitions.h. Nothing is kept: each look-up copies the entry and checks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "drain/segment_view.h"

namespace pilotlight {

class DefinitionReader {
 public:
  void open(const SegmentView* view) noexcept { view_ = view; }

  // False: there is no such entry, or it is malformed.
  bool string(uint32_t id, std::string* text) const;
  bool frame(uint32_t id, Frame* frame) const noexcept;
  bool stack(uint32_t id, Stack* stack) const noexcept;
  bool track(uint32_t id, Track* track) const noexcept;

 private:
  bool entry(uint32_t id, DefinitionKind kind, DefinitionHeader* header) const noexcept;
  template <typename T>
  bool fixed(uint32_t id, DefinitionKind kind, T* out) const noexcept;

  const SegmentView* view_ = nullptr;
};

// Which ids a chunk has already been given.
class IdSet {
 public:
  // True if the id was not in the set yet. Ids beyond any arena are never added.
  bool add(uint32_t id) {
    if (id >= kLimit) return false;
    uint32_t word = id / 64;
    if (word >= words_.size()) words_.resize(word + 1 + word / 4);
    uint64_t bit = uint64_t{1} << (id % 64);
    if (words_[word] & bit) return false;
    words_[word] |= bit;
    return true;
  }
  void clear() noexcept { words_.clear(); }

 private:
  static constexpr uint32_t kLimit = (64u << 20) / kDefinitionAlign;
  std::vector<uint64_t> words_;
};

}  // namespace pilotlight
