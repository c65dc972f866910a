// native/probe/thread_list.cpp: the walker's list of threads, and the lock that they share.
#include <algorithm>

#include "probe/python_offsets.h"
#include "probe/stack_copies.h"
#include "probe/stack_walk.h"

namespace pilotlight {
namespace {

constexpr uint32_t kMaxLinkBytes = 16 * 1024;
constexpr uint32_t kMaxInterpreters = 64;
constexpr uint32_t kMaxThreads = 4096;

}  // namespace

uint32_t StackWalker::tid_of(const unsigned char* thread) const noexcept {
  if (at(kThreadNativeId) != 0) {
    return static_cast<uint32_t>(value_at<uint64_t>(thread, at(kThreadNativeId)));
  }
  uint32_t tid = 0;
  if (at(kPthreadTid) == 0) return 0;
  memory_.read(value_at<uint64_t>(thread, at(kThreadId)) + at(kPthreadTid), &tid, sizeof(tid));
  return tid;
}

Gil StackWalker::gil_in(const unsigned char* bytes) const noexcept {
  return {value_at<uint64_t>(bytes, at(kGilHolder)), value_at<uint64_t>(bytes, at(kGilSwitches)),
          value_at<uint32_t>(bytes, at(kGilLocked)) == 1};
}

bool StackWalker::read_gil(uint64_t address, Gil* gil) const noexcept {
  unsigned char bytes[kMaxGilBytes];
  if (address == 0 || !memory_.read(address, bytes, gil_bytes_)) return false;
  *gil = gil_in(bytes);
  return true;
}

void StackWalker::keep_list(const ThreadRef* threads, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; i++) {
    known_[i] = threads[i].address;
    known_tid_[i] = threads[i].tid;
  }
  knowns_ = count;
}

bool StackWalker::guess(ThreadRef* out, uint32_t capacity, ThreadList* list) noexcept {
  guessed_ = false;
  if (knowns_ == 0 || knowns_ > std::min(kMaxGuessed, capacity) || at(kThreadNativeId) == 0) {
    return false;
  }
  uint64_t heads[] = {
      python_.runtime + at(kRuntimeInterpretersHead), interpreter_ + at(kInterpreterNext),
      interpreter_ + at(kInterpreterThreadsHead), interpreter_ + at(kInterpreterGil)};
  uint64_t wanted[] = {interpreter_, 0, known_[0], gil_address_};
  uint32_t count = at(kInterpreterGil) != 0 ? 4 : 3;
  if (!static_.has(gil_address_, gil_bytes_)) return false;
  // The lock first: what is read after it can be shown to be no newer than its next change.
  list->gil = {static_.load(gil_address_ + at(kGilHolder)),
               static_.load(gil_address_ + at(kGilSwitches)),
               static_cast<uint32_t>(static_.load(gil_address_ + at(kGilLocked))) == 1};
  for (uint32_t i = 0; i < count; i++) {
    if (!static_.has(heads[i], 8) || static_.load(heads[i]) != wanted[i]) return false;
  }
  for (uint32_t i = 0; i < knowns_; i++) {
    out[i] = {known_[i], gil_address_, known_tid_[i], nullptr};
  }
  list->count = list->total = knowns_;
  list->has_gil = list->is_guess = guessed_ = true;
  list->interpreters = 1;
  return true;
}

// Of each thread that was guessed its link to the next and its number.
uint32_t StackWalker::span_list(unsigned char* to, Span* spans) const noexcept {
  for (uint32_t i = 0; i < knowns_; i++, to += kListedBytes) {
    spans[2 * i] = {known_[i] + at(kThreadNext), to, 8};
    spans[2 * i + 1] = {known_[i] + at(kThreadNativeId), to + 8, 8};
  }
  return 2 * knowns_;
}

bool StackWalker::is_listed(const unsigned char* bytes) const noexcept {
  for (uint32_t i = 0; i < knowns_; i++) {
    uint64_t next = value_at<uint64_t>(bytes, i * kListedBytes);
    uint64_t tid = value_at<uint64_t>(bytes, i * kListedBytes + 8);
    if (next != (i + 1 < knowns_ ? known_[i + 1] : 0) || tid != known_tid_[i]) return false;
  }
  return true;
}

// The list as it was last time, read again in one system call. False: it has changed since.
bool StackWalker::threads_as_before(ThreadRef* out, uint32_t capacity, ThreadList* list) noexcept {
  if (knowns_ == 0 || knowns_ > capacity) return false;
  uint64_t head = 0, gil = gil_address_;
  unsigned char gil_bytes[kMaxGilBytes];
  unsigned char links[kMaxLinkBytes];
  uint32_t links_from = std::min(at(kInterpreterNext), at(kInterpreterThreadsHead));
  uint32_t links_bytes =
      std::max(at(kInterpreterNext), at(kInterpreterThreadsHead)) + 8 - links_from;
  if (links_bytes > kMaxLinkBytes) return false;
  Span spans[ProcessMemory::kMaxSpans];
  uint32_t count = 0;
  // The lock first: what is read after it can be shown to be no newer than its next change.
  spans[count++] = {gil_address_, gil_bytes, gil_bytes_};
  spans[count++] = {python_.runtime + at(kRuntimeInterpretersHead), &head, 8};
  spans[count++] = {interpreter_ + links_from, links, links_bytes};
  if (at(kInterpreterGil) != 0) spans[count++] = {interpreter_ + at(kInterpreterGil), &gil, 8};
  for (uint32_t i = 0; i < knowns_; i++) {
    spans[count++] = {known_[i], copies_->known[i], thread_bytes_};
  }
  if (!memory_.read_all(spans, count)) return false;
  uint64_t next = value_at<uint64_t>(links, at(kInterpreterNext) - links_from);
  uint64_t first = value_at<uint64_t>(links, at(kInterpreterThreadsHead) - links_from);
  if (head != interpreter_ || next != 0 || first != known_[0] || gil != gil_address_) return false;
  for (uint32_t i = 0; i < knowns_; i++) {
    const unsigned char* copy = copies_->known[i];
    uint64_t link = value_at<uint64_t>(copy, at(kThreadNext));
    if (link != (i + 1 < knowns_ ? known_[i + 1] : 0)) return false;
    out[i] = {known_[i], gil, tid_of(copy), copy};
  }
  keep_list(out, knowns_);
  list->count = list->total = knowns_;
  list->gil = gil_in(gil_bytes);
  list->has_gil = true;
  list->interpreters = 1;
  return true;
}

bool StackWalker::list_interpreter(uint64_t interpreter, ThreadRef* out, uint32_t capacity,
                                   ThreadList* list, uint64_t* next) noexcept {
  uint64_t gil = python_.runtime + at(kRuntimeGil);
  uint64_t thread = 0;
  Span spans[3] = {{interpreter + at(kInterpreterNext), next, 8},
                   {interpreter + at(kInterpreterThreadsHead), &thread, 8},
                   {interpreter + at(kInterpreterGil), &gil, 8}};
  if (!memory_.read_all(spans, at(kInterpreterGil) != 0 ? 3 : 2)) return false;
  if (list->total == 0) {
    gil_address_ = gil;
    list->has_gil = read_gil(gil, &list->gil);
  }
  for (; thread != 0 && list->total < kMaxThreads; list->total++) {
    unsigned char bytes[kMaxThreadBytes];
    if (!memory_.read(thread, bytes, thread_bytes_)) return false;
    // The newest first: of more than there is room for the oldest, the main thread, is kept.
    if (list->count < capacity) list->count++;
    out[list->count - 1] = {thread, gil, tid_of(bytes), nullptr};
    thread = value_at<uint64_t>(bytes, at(kThreadNext));
  }
  return true;
}

ThreadList StackWalker::threads(ThreadRef* out, uint32_t capacity) noexcept {
  ThreadList list;
  if (threads_as_before(out, capacity, &list)) return list;
  list = {};
  knowns_ = 0;
  uint64_t interpreter = 0;
  memory_.read(python_.runtime + at(kRuntimeInterpretersHead), &interpreter, sizeof(interpreter));
  interpreter_ = interpreter;
  uint32_t interpreters = 0;
  for (; interpreter != 0 && interpreters < kMaxInterpreters; interpreters++) {
    if (!list_interpreter(interpreter, out, capacity, &list, &interpreter)) return list;
  }
  list.interpreters = interpreters;
  if (interpreters == 1 && list.has_gil && list.count == list.total && list.count <= kMaxKnown) {
    keep_list(out, list.count);
  }
  return list;
}

}  // namespace pilotlight
