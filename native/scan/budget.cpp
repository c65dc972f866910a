// native/scan/budget.cpp: counts what is held, and opens files for what is not.
#include "scan/budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>

namespace pilotlight::scan {
namespace {

std::atomic<size_t> budget_bytes{SIZE_MAX};
std::atomic<size_t> held_bytes{0};
std::atomic<size_t> most_bytes{0};
std::mutex folder_lock;
std::string& folder() {
  static std::string* text = new std::string("/tmp");
  return *text;
}

void note(size_t held) {
  size_t most = most_bytes;
  while (held > most && !most_bytes.compare_exchange_weak(most, held)) {
  }
}

}  // namespace

void Budget::set(size_t memory_bytes, const char* path) {
  std::lock_guard<std::mutex> locked(folder_lock);
  folder() = path;
  budget_bytes = memory_bytes;
  most_bytes = held_bytes.load();
}

size_t Budget::bytes() { return budget_bytes; }

bool Budget::take(size_t bytes) {
  size_t held = held_bytes;
  do {
    if (bytes > budget_bytes || held > budget_bytes - bytes) return false;
  } while (!held_bytes.compare_exchange_weak(held, held + bytes));
  note(held + bytes);
  return true;
}

void Budget::force(size_t bytes) { note(held_bytes += bytes); }

void Budget::give(size_t bytes) { held_bytes -= bytes; }

size_t Budget::peak_bytes() { return most_bytes; }

int Budget::nameless_file() {
  std::lock_guard<std::mutex> locked(folder_lock);
  int file = open(folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string path = folder() + "/pilotlight-XXXXXX";
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

}  // namespace pilotlight::scan
