// native/scan/mapping.cpp: one list of all mappings, and the thread that trims them.
#include "scan/mapping.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

namespace pilotlight::scan {
namespace {

constexpr size_t kSlackBytes = 16 << 20;
constexpr std::chrono::milliseconds kRest(3);

// Pages of files that this process has mapped in now, its libraries included.
size_t resident_bytes(int statm) {
  char text[128];
  ssize_t length = pread(statm, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  size_t all = 0, resident = 0, shared = 0;
  if (std::sscanf(text, "%zu %zu %zu", &all, &resident, &shared) != 3) return 0;
  return shared * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class Mappings {
 public:
  void add(char* data, size_t bytes) {
    std::lock_guard<std::mutex> locked(lock_);
    start();
    // The thread may not get a core in time: what makes new mappings trims the old ones, too.
    trim_once();
    bytes_of_[data] = bytes;
    changed_.notify_one();
  }

  char* move(char* data, size_t bytes, size_t new_bytes) {
    std::lock_guard<std::mutex> locked(lock_);
    void* moved = mremap(data, bytes, new_bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return nullptr;
    bytes_of_.erase(data);
    bytes_of_[static_cast<char*>(moved)] = new_bytes;
    return static_cast<char*>(moved);
  }

  void remove(char* data, size_t bytes) {
    std::lock_guard<std::mutex> locked(lock_);
    bytes_of_.erase(data);
    munmap(data, bytes);
  }

  // A child of fork has no such thread; it starts one of its own.
  void hold() { lock_.lock(); }
  void release() { lock_.unlock(); }
  void forget_thread() {
    started_ = false;
    lock_.unlock();
  }

 private:
  void start() {
    if (started_) return;
    started_ = true;
    if (statm_ >= 0) ::close(statm_);
    statm_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    std::thread([this] { trim(); }).detach();
  }

  void trim() {
    std::unique_lock<std::mutex> locked(lock_);
    while (true) {
      changed_.wait(locked, [this] { return !bytes_of_.empty(); });
      locked.unlock();
      std::this_thread::sleep_for(kRest);
      locked.lock();
      trim_once();
    }
  }

  void trim_once() {
    size_t now = resident_bytes(statm_);
    if (bytes_of_.empty() || now < floor_) floor_ = now;
    if (now <= floor_ + kSlackBytes) return;
    for (auto [data, bytes] : bytes_of_) madvise(data, bytes, MADV_DONTNEED);
    floor_ = resident_bytes(statm_);
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::map<char*, size_t> bytes_of_;
  size_t floor_ = 0;  // pages of files that are mapped in whatever is given back
  int statm_ = -1;
  bool started_ = false;
};

// Never destroyed: the thread outlives main.
Mappings& mappings() {
  static Mappings* all = [] {
    auto* made = new Mappings;
    pthread_atfork([] { mappings().hold(); }, [] { mappings().release(); },
                   [] { mappings().forget_thread(); });
    return made;
  }();
  return *all;
}

}  // namespace

char* Mapping::open(int file, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return nullptr;
  mappings().add(static_cast<char*>(data), bytes);
  return static_cast<char*>(data);
}

char* Mapping::grow(char* data, size_t bytes, size_t new_bytes) {
  return mappings().move(data, bytes, new_bytes);
}

void Mapping::close(char* data, size_t bytes) { mappings().remove(data, bytes); }

bool extend(int file, size_t bytes) {
  return posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0;
}

}  // namespace pilotlight::scan
