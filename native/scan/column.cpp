// native/scan/column.cpp: pages in memory up to the budget, then in files without a name.
#include "scan/column.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

namespace pilotlight::scan {
namespace {

constexpr size_t kPage = 4096;
// A column below this stays in memory whatever the budget: a file would cost more than it saves.
constexpr size_t kSmall = 1 << 20;

std::atomic<size_t> budget_bytes{SIZE_MAX};
std::atomic<size_t> held_bytes{0};
std::mutex folder_lock;
std::string& folder() {
  static std::string* text = new std::string("/tmp");
  return *text;
}

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

int nameless_file() {
  std::lock_guard<std::mutex> held(folder_lock);
  int file = open(folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string path = folder() + "/pilotlight-XXXXXX";
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

bool write_all(int file, const char* data, size_t bytes) {
  while (bytes > 0) {
    ssize_t done = write(file, data, bytes);
    if (done <= 0) return false;
    data += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

// Unlike ftruncate, finds out now that the disk is full, and not by a signal later.
bool extend(int file, size_t bytes) {
  return posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0;
}

}  // namespace

void Budget::set(size_t memory_bytes, const char* path) {
  std::lock_guard<std::mutex> held(folder_lock);
  folder() = path;
  budget_bytes = memory_bytes;
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, capacity_);
  if (file_ >= 0) {
    close(file_);
  } else {
    held_bytes -= capacity_;
  }
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      file_(std::exchange(other.file_, -1)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(file_, other.file_);
  return *this;
}

bool Pages::reserve(size_t used, size_t bytes) {
  if (bytes > SIZE_MAX / 4) return false;
  bytes = rounded(bytes);
  if (bytes <= capacity_) return true;
  if (file_ >= 0) {
    if (!extend(file_, bytes) || !remap(bytes)) return false;
    // What was written is for later; its pages need not stay.
    madvise(data_, used / kPage * kPage, MADV_DONTNEED);
    return true;
  }
  if (bytes > kSmall && held_bytes + bytes - capacity_ > budget_bytes) {
    return move_to_file(used, bytes);
  }
  size_t before = capacity_;
  if (!remap(bytes)) return move_to_file(used, bytes);
  held_bytes += bytes - before;
  return true;
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
  int file = nameless_file();
  if (file < 0) return false;
  void* mapped = MAP_FAILED;
  if (write_all(file, data_, used) && extend(file, bytes)) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped == MAP_FAILED) {
    close(file);
    return false;
  }
  if (data_ != nullptr) munmap(data_, capacity_);
  held_bytes -= capacity_;
  data_ = static_cast<char*>(mapped);
  capacity_ = bytes;
  file_ = file;
  return true;
}

}  // namespace pilotlight::scan
