// native/scan/column.h: a growing column of numbers that never holds its content twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace pilotlight::scan {

// Pages that grow by being remapped, which copies nothing, and move to a file without a name where
// the budget ends. Not for threads.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  char* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  bool on_disk() const { return on_disk_; }
  // Will not grow again: needs no open file.
  void finish();
  // False: no memory and no disk; what there is stays.
  [[nodiscard]] bool reserve(size_t used, size_t bytes);

 private:
  [[nodiscard]] bool remap(size_t bytes);
  [[nodiscard]] bool move_to_file(size_t used, size_t bytes);

  char* data_ = nullptr;
  size_t capacity_ = 0;
  int file_ = -1;
  bool on_disk_ = false;
};

template <typename T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  [[nodiscard]] bool push(T value) {
    if (size_ == capacity_ && !grow(1)) return false;
    std::memcpy(pages_.data() + size_ * sizeof(T), &value, sizeof(T));
    size_++;
    return true;
  }
  [[nodiscard]] bool append(const T* values, size_t count) {
    if (capacity_ - size_ < count && !grow(count)) return false;
    if (count > 0) std::memcpy(pages_.data() + size_ * sizeof(T), values, count * sizeof(T));
    size_ += count;
    return true;
  }
  const T* data() const { return reinterpret_cast<const T*>(pages_.data()); }
  T* data() { return reinterpret_cast<T*>(pages_.data()); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return size_; }
  void pop() { size_--; }
  bool on_disk() const { return pages_.on_disk(); }
  void finish() { pages_.finish(); }

 private:
  bool grow(size_t count) {
    size_t wanted = (size_ + count) * sizeof(T);
    if (wanted < 2 * size_ * sizeof(T)) wanted = 2 * size_ * sizeof(T);
    if (!pages_.reserve(size_ * sizeof(T), wanted)) return false;
    capacity_ = pages_.capacity() / sizeof(T);
    return true;
  }

  Pages pages_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace pilotlight::scan
