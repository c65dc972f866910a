// native/scan/arrays.cpp: each block is preceded by where it is and how large.
#include "scan/arrays.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "scan/budget.h"
#include "scan/mapping.h"

namespace pilotlight::scan {
namespace {

constexpr size_t kPage = 4096;

enum class Where : uint64_t { kUncounted, kCounted, kFile };

// As large as the alignment that vector instructions like.
struct alignas(64) Head {
  size_t bytes;  // of the block with this head
  Where where;
};

const ArrayAllocator* allocator_of(void* context) {
  return &static_cast<const ArrayHandler*>(context)->allocator;
}

Head* head_of(void* data) { return static_cast<Head*>(data) - 1; }

void* placed(void* block, size_t bytes, Where where) {
  auto* head = static_cast<Head*>(block);
  head->bytes = bytes;
  head->where = where;
  return head + 1;
}

void* in_file(size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  int file = Budget::nameless_file();
  if (file < 0) return nullptr;
  char* block = extend(file, bytes) ? Mapping::open(file, bytes) : nullptr;
  close(file);
  return block == nullptr ? nullptr : placed(block, bytes, Where::kFile);
}

void* in_memory(void* context, size_t bytes, bool zeroed, Where where) {
  const ArrayAllocator* usual = allocator_of(context);
  void* block =
      zeroed ? usual->calloc(usual->context, 1, bytes) : usual->malloc(usual->context, bytes);
  return block == nullptr ? nullptr : placed(block, bytes, where);
}

void* take(void* context, size_t wanted, bool zeroed) {
  if (wanted > SIZE_MAX / 2) return nullptr;
  size_t bytes = wanted + sizeof(Head);
  if (bytes < kSmall) return in_memory(context, bytes, zeroed, Where::kUncounted);
  if (!Budget::take(bytes)) {
    if (void* data = in_file(bytes)) return data;
    Budget::force(bytes);  // neither room for a file nor the right to open one
  }
  void* data = in_memory(context, bytes, zeroed, Where::kCounted);
  if (data == nullptr) Budget::give(bytes);
  return data;
}

void release(void* context, void* data, size_t) {
  if (data == nullptr) return;
  Head* head = head_of(data);
  size_t bytes = head->bytes;
  if (head->where == Where::kFile) {
    Mapping::close(reinterpret_cast<char*>(head), bytes);
    return;
  }
  if (head->where == Where::kCounted) Budget::give(bytes);
  const ArrayAllocator* usual = allocator_of(context);
  usual->free(usual->context, head, bytes);
}

void* changed(void* context, void* data, size_t bytes) {
  void* moved = take(context, bytes, false);
  if (data == nullptr || moved == nullptr) return moved;
  std::memcpy(moved, data, std::min(bytes, head_of(data)->bytes - sizeof(Head)));
  release(context, data, 0);
  return moved;
}

void* plain(void* context, size_t bytes) { return take(context, bytes, false); }

void* zeroed(void* context, size_t count, size_t each) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) return nullptr;
  return take(context, bytes, true);
}

}  // namespace

ArrayHandler* bounded_handler(const ArrayHandler* usual) {
  void* context = const_cast<ArrayHandler*>(usual);
  return new ArrayHandler{"pilotlight", 1, {context, plain, zeroed, changed, release}};
}

}  // namespace pilotlight::scan
