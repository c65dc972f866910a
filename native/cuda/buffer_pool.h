// native/cuda/buffer_pool.h: the memory that CUPTI writes its records into.
//
// CUPTI asks for a buffer on the application's threads, so one is handed out by a compare-and-swap;
// it comes back on any thread and waits for ours to decode it. Zeroed when it is handed out, so
// that CUPTI need not do it on the application's time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pilotlight::cupti {

struct FullBuffer {
  uint8_t* data;
  size_t valid_bytes;
  void* context;
  uint32_t stream;
  uint32_t place;  // kOverflow: allocated for once
};

class BufferPool {
 public:
  static constexpr uint32_t kBuffers = 40;
  static constexpr size_t kBytes = 512 * 1024;
  static constexpr size_t kOverflowBytes = 16 * 1024;
  static constexpr uint32_t kOverflow = ~0u;
  static constexpr uint32_t kReady = 8;  // touched beforehand
  static constexpr uint32_t kOverflows = 1024;
  static constexpr uint32_t kMostWaiting = 512;  // overflows that are not decoded yet

  // False: no memory.
  bool open() noexcept;

  // Until it is opened again, none is handed out but those that CUPTI must have.
  void close() noexcept { is_closed_.store(true, std::memory_order_relaxed); }
  void reopen() noexcept { is_closed_.store(false, std::memory_order_relaxed); }
  bool is_closed() const noexcept { return is_closed_.load(std::memory_order_relaxed); }

  // On any thread. `*bytes` is 0 and `*data` null if there is none and `must_give` is false;
  // otherwise a small one is allocated.
  void request(bool must_give, uint8_t** data, size_t* bytes) noexcept;
  // On any thread; nothing happens if this is no buffer of ours that is out. True: `*away` cannot
  // be kept until it is decoded, and is to be given back.
  bool complete(void* context, uint32_t stream, uint8_t* data, size_t valid_bytes,
                FullBuffer* away) noexcept;

  // On our thread: the oldest that has come back; false: none.
  bool take(FullBuffer* full) noexcept;
  void give_back(const FullBuffer& full) noexcept;
  // At exit, on the thread that ends the process: one that ours did not come to. Never given back.
  bool take_left(FullBuffer* full) noexcept;

  uint32_t out() const noexcept;        // with CUPTI now
  bool has_come_back() const noexcept;  // whether any is not decoded yet
  bool is_low() const noexcept;         // less than a quarter is left for CUPTI
  uint64_t exhausted() const noexcept { return exhausted_.load(std::memory_order_relaxed); }

 private:
  enum State : uint32_t { kFree, kOut, kReturning, kFull, kTaken };
  struct Entry {
    std::atomic<uint32_t> state;
    uint32_t stream;
    uint64_t turn;
    size_t valid_bytes;
    void* context;
  };
  struct Overflow {
    Overflow* next;
    void* context;
    uint32_t stream;
    size_t valid_bytes;
    alignas(16) uint8_t data[kOverflowBytes];
  };

  bool take_entry(FullBuffer* full) noexcept;
  static FullBuffer full_of(Overflow* overflow) noexcept;

  uint8_t* memory_ = nullptr;
  Entry entries_[kBuffers] = {};
  std::atomic<uint64_t> turns_{0};
  std::atomic<uint64_t> exhausted_{0};
  std::atomic<bool> is_closed_{false};
  std::atomic<Overflow*> overflows_{nullptr};
  std::atomic<uint32_t> waiting_{0};  // of them
  Overflow* left_ = nullptr;
  // Those that are out: another tool's buffer must not be taken for one of ours.
  std::atomic<Overflow*> overflows_out_[kOverflows] = {};
};

}  // namespace pilotlight::cupti
