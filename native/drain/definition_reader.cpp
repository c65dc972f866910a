// native/drain/definition_reader.cpp
#include "drain/definition_reader.h"

namespace pilotlight {

bool DefinitionReader::entry(uint32_t id, DefinitionKind kind,
                             DefinitionHeader* header) const noexcept {
  const SegmentHeader& h = view_->header();
  uint64_t offset = uint64_t{id} * kDefinitionAlign;
  uint64_t head = view_->load64(offsetof(SegmentHeader, arena_head));
  if (head > h.arena_bytes) head = h.arena_bytes;
  if (id == 0 || offset + sizeof(*header) > head) return false;
  if (!view_->copy(h.arena_offset + offset, header, sizeof(*header))) return false;
  return header->kind == static_cast<uint8_t>(kind) && header->size >= sizeof(*header) &&
         header->size % kDefinitionAlign == 0 && header->size <= head - offset;
}

bool DefinitionReader::string(uint32_t id, std::string* text) const {
  DefinitionHeader header;
  if (!entry(id, DefinitionKind::kString, &header)) return false;
  uint32_t bytes = header.size - sizeof(header);
  if (header.unused >= kDefinitionAlign || header.unused > bytes) return false;
  bytes -= header.unused;
  if (bytes > kMaxStringBytes) return false;
  text->resize(bytes);
  uint64_t offset = uint64_t{id} * kDefinitionAlign + sizeof(header);
  return view_->copy(view_->header().arena_offset + offset, text->data(), bytes);
}

template <typename T>
bool DefinitionReader::fixed(uint32_t id, DefinitionKind kind, T* out) const noexcept {
  DefinitionHeader header;
  if (!entry(id, kind, &header) || header.size < sizeof(T)) return false;
  uint64_t offset = uint64_t{id} * kDefinitionAlign;
  return view_->copy(view_->header().arena_offset + offset, out, sizeof(T));
}

bool DefinitionReader::frame(uint32_t id, Frame* frame) const noexcept {
  return fixed(id, DefinitionKind::kFrame, frame) && frame->function < id && frame->file < id;
}

bool DefinitionReader::stack(uint32_t id, Stack* stack) const noexcept {
  // An entry refers only to earlier ones, so following parents always ends.
  return fixed(id, DefinitionKind::kStack, stack) && stack->parent < id && stack->frame < id;
}

bool DefinitionReader::track(uint32_t id, Track* track) const noexcept {
  return fixed(id, DefinitionKind::kTrack, track) && track->name < id;
}

bool IdSet::add_new(uint32_t id, uint32_t word, uint64_t bit) {
  if (id == 0 || id >= kLimit) return false;
  if (word >= words_.size()) words_.resize(word + 1 + word / 4);
  words_[word] |= bit;
  return true;
}

}  // namespace pilotlight
