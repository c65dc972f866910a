// native/probe/thread_table.cpp
#include "probe/thread_table.h"

#include <new>

namespace pilotlight {
namespace {

// Of the time: the clocks are not read at the same moment, and interrupts take some too.
constexpr double kRanRatio = 0.97;

}  // namespace

bool ThreadEntry::has_rested() noexcept {
  // One that ran or waited for the lock a moment ago has surely run since: not worth a system call.
  bool may_rest = state == ThreadState::kWaiting || state == ThreadState::kDisk;
  uint64_t now_cpu_ns = may_rest ? thread_cpu_ns(ref.tid) : 0;
  bool rested = has_stack && now_cpu_ns != 0 && now_cpu_ns == cpu_ns;
  cpu_ns = now_cpu_ns;
  return rested;
}

bool ThreadEntry::has_run(int64_t now_ns) noexcept {
  uint64_t now_cpu_ns = thread_cpu_ns(ref.tid);
  bool ran = ran_cpu_ns != 0 && now_cpu_ns > ran_cpu_ns &&
             static_cast<double>(now_cpu_ns - ran_cpu_ns) >=
                 static_cast<double>(now_ns - ran_at_ns) * kRanRatio;
  ran_cpu_ns = now_cpu_ns;
  ran_at_ns = now_ns;
  return ran;
}

ThreadTable::~ThreadTable() {
  for (uint32_t i = 0; i < used_; i++) entries()[i].file.close();
}

ThreadEntry* ThreadTable::find(const ThreadRef& ref, uint64_t pass) noexcept {
  // Threads come in the same order each time, so the first look nearly always hits.
  for (uint32_t i = 0; i < used_; i++) {
    uint32_t place = (next_ + i) % used_;
    ThreadEntry& entry = entries()[place];
    if (entry.ref.address != ref.address || entry.ref.tid != ref.tid) continue;
    entry.ref = ref;
    entry.seen_pass = pass;
    next_ = place + 1;
    return &entry;
  }
  if (used_ == kMaxThreads) return nullptr;
  ThreadEntry& entry = *new (&entries()[used_++]) ThreadEntry{};
  entry.ref = ref;
  entry.seen_pass = pass;
  next_ = used_;
  return &entry;
}

void ThreadTable::release(ThreadEntry* entry) noexcept {
  if (!entry->file.is_open()) return;
  entry->file.close();
  files_--;
}

void ThreadTable::sweep(uint64_t pass) noexcept {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < used_; i++) {
    if (entries()[i].seen_pass != pass) {
      release(&entries()[i]);
    } else {
      if (kept != i) entries()[kept] = entries()[i];
      kept++;
    }
  }
  used_ = kept;
  next_ = 0;
}

void ThreadTable::forget_times() noexcept {
  for (uint32_t i = 0; i < used_; i++) entries()[i].sampled_ns = 0;
}

ThreadState ThreadTable::state_of(ThreadEntry* entry, pid_t pid, const GilAddresses& gil) noexcept {
  if (entry->file.is_open()) return entry->file.read(gil);
  if (!entry->file.open(pid, entry->ref.tid)) return ThreadState::kUnknown;
  ThreadState state = entry->file.read(gil);
  if (files_ < kMaxFiles) {
    files_++;
  } else {
    entry->file.close();
  }
  return state;
}

}  // namespace pilotlight
