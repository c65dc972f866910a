// native/scan/column.cpp: pages in memory up to the budget, then in files without a name.
#include "scan/column.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "scan/budget.h"
#include "scan/mapping.h"

namespace pilotlight::scan {
namespace {

constexpr size_t kPage = 4096;

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

bool write_all(int file, const char* data, size_t bytes) {
  while (bytes > 0) {
    ssize_t done = write(file, data, bytes);
    if (done <= 0) return false;
    data += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

Pages::~Pages() {
  finish();
  if (data_ == nullptr) return;
  if (on_disk_) {
    Mapping::close(data_, capacity_);
  } else {
    munmap(data_, capacity_);
    Budget::give(capacity_);
  }
}

void Pages::finish() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      file_(std::exchange(other.file_, -1)),
      on_disk_(std::exchange(other.on_disk_, false)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(file_, other.file_);
  std::swap(on_disk_, other.on_disk_);
  return *this;
}

bool Pages::reserve(size_t used, size_t bytes) {
  if (bytes > SIZE_MAX / 4) return false;
  bytes = rounded(bytes);
  if (bytes <= capacity_) return true;
  if (on_disk_) {
    char* moved = extend(file_, bytes) ? Mapping::grow(data_, capacity_, bytes) : nullptr;
    if (moved == nullptr) return false;
    data_ = moved;
    capacity_ = bytes;
    return true;
  }
  size_t more = bytes - capacity_;
  if (!Budget::take(more)) {
    if (bytes > kSmall) return move_to_file(used, bytes);
    Budget::force(more);
  }
  if (remap(bytes)) return true;
  Budget::give(more);
  return move_to_file(used, bytes);
}

bool Pages::remap(size_t bytes) {
  void* moved = data_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : mremap(data_, capacity_, bytes, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return false;
  data_ = static_cast<char*>(moved);
  capacity_ = bytes;
  return true;
}

bool Pages::move_to_file(size_t used, size_t bytes) {
  int file = Budget::nameless_file();
  if (file < 0) return false;
  char* mapped = nullptr;
  if (write_all(file, data_, used) && extend(file, bytes)) mapped = Mapping::open(file, bytes);
  if (mapped == nullptr) {
    close(file);
    return false;
  }
  if (data_ != nullptr) munmap(data_, capacity_);
  Budget::give(capacity_);
  data_ = mapped;
  capacity_ = bytes;
  file_ = file;
  on_disk_ = true;
  return true;
}

}  // namespace pilotlight::scan
