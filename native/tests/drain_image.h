// native/tests/drain_image.h: a whole segment, small, as the input of a fuzzer.
//
// An input is the parts of a segment that matter, one after the other; what is cut off is zero. A
// segment of 32 KiB is made of it, with two rings. Then come patches that are applied between
// reads.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ring/layout.h"
#include "ring/segment.h"
#include "ring_check.h"

namespace pilotlight {

constexpr uint32_t kImageRings = 2;
constexpr uint32_t kImageRingBytes = kPage;
constexpr uint64_t kImageTable = 3 * kPage;
constexpr uint64_t kImageIdentity = 4 * kPage;
constexpr uint64_t kImageArena = 5 * kPage;
constexpr uint64_t kImageRingsOffset = 6 * kPage;
constexpr uint64_t kImageBytes = kImageRingsOffset + kImageRings * kImageRingBytes;

// What an input says beside the bytes of the segment.
enum ImageFlag : uint8_t {
  kImageUnsealed = 1,  // the reader must not map it
  kImageThisBoot = 2,  // ticks are those of this machine
};
struct ImageOptions {
  uint8_t flags;
  uint8_t unused[7];
};

struct ImagePart {
  uint64_t offset;
  uint32_t bytes;
};
constexpr ImagePart kImageParts[] = {
    {0, sizeof(SegmentHeader)},
    {kPage, sizeof(AgentHeader)},
    {2 * kPage, kImageRings * sizeof(RingTail)},
    {kImageTable, kImageRings * sizeof(RingSlot)},
    {kImageIdentity, 64},
    {kImageArena, 1024},
    {kImageRingsOffset, kImageRings * kImageRingBytes},
};

struct ImagePatch {
  uint32_t offset;
  uint32_t bytes;  // of `value`, modulo 9
  uint64_t value;
};

constexpr uint32_t image_input_bytes() {
  uint32_t bytes = sizeof(ImageOptions);
  for (const ImagePart& part : kImageParts) bytes += part.bytes;
  return bytes;
}

// A header that a reader accepts.
inline void describe_image(SegmentHeader* header) {
  header->magic = kMagic;
  header->abi_major = kAbiMajor;
  header->header_bytes = sizeof(SegmentHeader);
  header->segment_bytes = kImageBytes;
  header->pid = 1;
  header->ring_count = kImageRings;
  header->ring_bytes = kImageRingBytes;
  header->agent_offset = kPage;
  header->table_offset = kImageTable;
  header->identity_offset = kImageIdentity;
  header->identity_capacity = kPage;
  header->arena_offset = kImageArena;
  header->arena_bytes = kPage;
  header->rings_offset = kImageRingsOffset;
  header->clock_base = {1000, 1000, 1000};
  header->clock_now = {2000, 2000, 2000};
}

// A segment made of an input, and the producer's writable map of it.
class Image {
 public:
  Image(const uint8_t* input, size_t bytes) {
    fd_ = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd_ >= 0 && ftruncate(fd_, kImageBytes) == 0);
    void* map = mmap(nullptr, kImageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    CHECK(map != MAP_FAILED);
    base_ = static_cast<char*>(map);
    ImageOptions options = {};
    take(&input, &bytes, &options, sizeof(options));
    for (const ImagePart& part : kImageParts) take(&input, &bytes, base_ + part.offset, part.bytes);
    if (options.flags & kImageThisBoot) {
      read_boot_id(reinterpret_cast<SegmentHeader*>(base_)->boot_id);
    }
    if (!(options.flags & kImageUnsealed)) {
      CHECK(fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    }
    patches_ = input;
    patch_bytes_ = bytes;
  }
  ~Image() {
    munmap(base_, kImageBytes);
    close(fd_);
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  int fd() const { return fd_; }
  char* base() const { return base_; }

  // Applies up to `count` of the patches that follow the image; false: there are none left.
  bool patch(uint32_t count) {
    ImagePatch patch = {};
    while (count-- > 0 && take(&patches_, &patch_bytes_, &patch, sizeof(patch))) {
      uint64_t offset = patch.offset % (kImageBytes - sizeof(patch.value));
      std::memcpy(base_ + offset, &patch.value, patch.bytes % 9);
    }
    return patch_bytes_ > 0;
  }

 private:
  static bool take(const uint8_t** input, size_t* bytes, void* to, size_t wanted) {
    size_t got = std::min(*bytes, wanted);
    if (got > 0) std::memcpy(to, *input, got);
    *input += got;
    *bytes -= got;
    return got > 0;
  }

  int fd_ = -1;
  char* base_ = nullptr;
  const uint8_t* patches_ = nullptr;
  size_t patch_bytes_ = 0;
};

}  // namespace pilotlight
