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
  // True if the id was not in the set yet. No id and ids beyond any arena are never added.
  bool add(uint32_t id) {
    uint32_t word = id / 64;
    uint64_t bit = uint64_t{1} << (id % 64);
    if (word < words_.size() && (words_[word] & bit) != 0) return false;
    return add_new(id, word, bit);
  }
  void clear() noexcept { words_.clear(); }

 private:
  static constexpr uint32_t kLimit = (64u << 20) / kDefinitionAlign;
  bool add_new(uint32_t id, uint32_t word, uint64_t bit);
  std::vector<uint64_t> words_;
};

}  // namespace pilotlight
