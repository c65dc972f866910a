// native/probe/sampler.cpp
//
// Three kinds of threads, by what is known of them while they are read:
//   resting: its CPU time has not moved since before its stack was last read, so it has not run and
//            everything is as it was; nothing is read again.
//   frozen:  it neither holds the interpreter lock nor was the last to hold it, and the lock's
//   count
//            of switches is the same after the reads as before. Frames, and the code they keep
//            alive, change only under the lock, so one walk is exact.
//   moving:  the rest, normally the one thread that holds the lock: see stack_snapshot.cpp. If it
//            sleeps, its CPU time shows that it still did after the walk.
#include "probe/sampler.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "probe/python_offsets.h"
#include "probe/stack_interner.h"
#include "probe/stack_snapshot.h"
#include "probe/stack_walk.h"
#include "probe/thread_state.h"
#include "probe/thread_table.h"

namespace pilotlight {
namespace {

constexpr uint8_t kFlagCut = 1;
constexpr uint8_t kFlagNotRead = 2;
constexpr uint8_t kFlagOtherThread = 1;  // of a Thread record: does not change the ring's owner
constexpr int64_t kNameCheckNs = 10'000'000'000;
constexpr int kMaxRounds = 3;
constexpr uint32_t kSteadyWaits = 6;
constexpr uint64_t kHeldPasses = 12;

static_assert(sizeof(PythonLayout) == kPythonOffsets * sizeof(uint32_t));

// 3.10: the place behind a pthread_t was found on another thread; it must be right on this one too.
bool finds_own_tid(const StackWalker& walker, uint32_t own_tid) noexcept {
  if (walker.at(kPthreadTid) == 0) return true;
  uint32_t tid = 0;
  uint64_t place = static_cast<uint64_t>(pthread_self()) + walker.at(kPthreadTid);
  return walker.memory().read(place, &tid, sizeof(tid)) && tid == own_tid;
}

const char* refusal = "describe_python() was not called";

}  // namespace

struct Sampler::State {
  const ThreadNames* names = nullptr;
  Definitions* definitions = nullptr;
  RingWriter* ring = nullptr;
  StackWalker walker;
  StackInterner interner;
  StackSnapshot snapshot;
  ThreadTable threads;
  SamplerCounts counts = {};
  uint64_t passes = 0;
  uint64_t epoch = 0;
  int64_t now_ns = 0;
  int64_t last_pass_ns = 0;
  uint32_t own_tid = 0;
  Chain chain;
  ThreadRef refs[ThreadTable::kMaxThreads];
  // The moving thread that was fetched with the frozen ones, and where.
  ThreadEntry* fetched_moving = nullptr;
  StackSnapshot::Places fetched_places = {};
  bool list_changed = false;      // since it was guessed from the last
  bool read_after_fetch = false;  // something of a frozen thread, so the lock has to be asked again
  uint32_t frozens = 0;
  uint32_t movings = 0;
  ThreadEntry* frozen[ThreadTable::kMaxThreads];
  ThreadEntry* moving[ThreadTable::kMaxThreads];

  void pass() noexcept;
  bool read(const ThreadList& list) noexcept;
  bool read_frozen(uint32_t place, ThreadEntry* entry) noexcept;
  bool read_sleeping(ThreadEntry* entry) noexcept;
  bool read_moving(ThreadEntry* entry) noexcept;
  void keep(ThreadEntry* entry, uint32_t stack) noexcept;
  void write(ThreadEntry* entry, uint8_t flags) noexcept;
  void name(ThreadEntry* entry) noexcept;
  bool has_begun(const ThreadList& list, uint32_t i) const noexcept;
  void sort(const ThreadList& list) noexcept;
  bool read_all_frozen(const ThreadList& list) noexcept;
  bool fits_moving(uint32_t others) const noexcept;
  GilAddresses gil_addresses(const ThreadEntry& entry) const noexcept;
  void tell_state(ThreadEntry* entry, bool is_frozen, bool runs) noexcept;

  uint32_t last_waiters = 0;  // threads that waited for the lock in the last pass
  uint64_t last_switches = 0;
};

GilAddresses Sampler::State::gil_addresses(const ThreadEntry& entry) const noexcept {
  if (entry.ref.gil == 0) return {};
  return {entry.ref.gil + walker.at(kGilCond), entry.ref.gil + walker.at(kGilMutex)};
}

void Sampler::State::keep(ThreadEntry* entry, uint32_t stack) noexcept {
  entry->stack = stack;
  entry->flags = chain.cut ? kFlagCut : 0;
  entry->has_stack = true;
  entry->has_frames = chain.frames != 0;
  uint64_t leaf = chain.nodes != 0 ? chain.node[0].address ^ chain.node[0].instruction : 0;
  entry->has_moved = leaf != entry->leaf;
  entry->leaf = leaf;
}

bool Sampler::State::read_frozen(uint32_t place, ThreadEntry* entry) noexcept {
  bool late = false;
  entry->has_stack = false;
  if (!walker.walk(place, place, &entry->hint, &chain, &late)) return false;
  uint32_t stack = 0;
  Interned interned = interner.intern(chain, epoch, &stack);
  if (interned == Interned::kBroken) return false;
  if (late || interned == Interned::kFresh) read_after_fetch = true;
  keep(entry, stack);
  return true;
}

bool Sampler::State::read_sleeping(ThreadEntry* entry) noexcept {
  entry->cpu_ns = thread_cpu_ns(entry->ref.tid);
  StackWalker::Want want = {entry->ref, &entry->hint};
  want.thread.copy = nullptr;
  StackWalker::More nothing;
  Gil after;
  walker.fetch(&want, 1, &nothing, &after);
  return entry->cpu_ns != 0 && read_frozen(0, entry) &&
         thread_cpu_ns(entry->ref.tid) == entry->cpu_ns;
}

bool Sampler::State::read_moving(ThreadEntry* entry) noexcept {
  if (entry->state != ThreadState::kRunning && read_sleeping(entry)) return true;
  entry->has_stack = false;
  for (int round = 0; round < kMaxRounds; round++) {
    uint32_t stack = 0;
    if (round > 0) epoch++;
    bool is_here = round == 0 && entry == fetched_moving &&
                   snapshot.take_fetched(&walker, fetched_places, entry->ref, &entry->hint, &chain);
    if (!is_here && !snapshot.take(&walker, entry->ref, &entry->hint, &chain)) return false;
    switch (interner.intern(chain, epoch, &stack)) {
      case Interned::kKnown:
        keep(entry, stack);
        return true;
      case Interned::kFresh:
        // What was learnt now is believed when the next round finds the frames still there.
      case Interned::kBroken:
        break;
    }
  }
  return false;
}

void Sampler::State::name(ThreadEntry* entry) noexcept {
  uint32_t id = names->of(entry->ref.tid);
  bool is_kernels = id == 0;
  if (is_kernels) {
    if (entry->named_ns != 0 && now_ns - entry->named_ns < kNameCheckNs) return;
    char text[64];
    uint32_t bytes = read_thread_name(entry->ref.tid, text, sizeof(text));
    if (bytes == 0) return;
    id = definitions->string({text, bytes});
  }
  if (id == entry->name) {
    entry->named_ns = now_ns;
    return;
  }
  Thread record = {};
  record.header.flags = kFlagOtherThread;
  record.tid = entry->ref.tid;
  if (!ring->write(RecordType::kThread, id, record)) return;
  if (is_kernels) counts.named++;
  entry->name = id;
  entry->named_ns = now_ns;
}

void Sampler::State::write(ThreadEntry* entry, uint8_t flags) noexcept {
  if (!entry->has_frames || entry->sampled_ns == now_ns) return;
  name(entry);
  int64_t since = entry->sampled_ns != 0 ? entry->sampled_ns : last_pass_ns;
  Sample record = {};
  record.tid = entry->ref.tid;
  record.state = static_cast<uint8_t>(entry->state);
  record.flags = static_cast<uint8_t>(entry->flags | flags);
  record.weight_ns = static_cast<uint64_t>(now_ns - since);
  if (!ring->write(RecordType::kSample, entry->stack, record)) return;
  entry->sampled_ns = now_ns;
  counts.taken++;
}

// A thread that was made but has not begun has its maker's number before 3.12: its stack would be
// told as another one of the maker's, which stands behind it in the list. Where there are several
// interpreters a thread has a state in each that it runs, with the same number.
bool Sampler::State::has_begun(const ThreadList& list, uint32_t i) const noexcept {
  if (list.interpreters != 1 || walker.python().version >= 0x030c0000) return true;
  for (uint32_t older = i + 1; older < list.count; older++) {
    if (refs[older].tid == refs[i].tid) return false;
  }
  return true;
}

// Sorts the threads into frozen and moving ones; those that rest are done with.
void Sampler::State::sort(const ThreadList& list) noexcept {
  frozens = movings = 0;
  uint32_t waiters = 0;
  bool contended = list.has_gil && last_waiters != 0 && list.gil.switches != last_switches;
  for (uint32_t i = 0; i < list.count; i++) {
    if (refs[i].tid == 0 || refs[i].tid == own_tid || !has_begun(list, i)) continue;
    ThreadEntry* entry = threads.find(refs[i], passes);
    if (entry == nullptr) {
      counts.torn++;
      continue;
    }
    if (entry->has_rested()) {
      write(entry, kFlagNotRead);
      continue;
    }
    bool is_frozen =
        list.has_gil && refs[i].gil == refs[0].gil && refs[i].address != list.gil.holder;
    bool runs =
        !is_frozen &&
        (contended || (list.gil.is_held && entry->has_moved && refs[i].address == list.gil.holder));
    tell_state(entry, is_frozen, runs);
    waiters += entry->state == ThreadState::kGilWait;
    (is_frozen ? frozen[frozens++] : moving[movings++]) = entry;
  }
  last_waiters = waiters;
  last_switches = list.gil.switches;
}

// The kernel's file of a thread is the dearest thing in a pass. Threads that contend for the lock
// wait for nearly all of the time that they do not hold it: one that did so every time is asked
// only now and then. (One that does so half of the time is hardly ever met so often in a row, and
// is asked each time: to hold each answer would count its waits too long.) Who has the lock runs,
// as long as others wait for it and it changes hands, or if it had moved when it was last met:
// hardly anybody who waits keeps the lock, and who does stands still from then on. Of others that
// are not frozen their CPU time tells for half the cost whether they ran all the while.
void Sampler::State::tell_state(ThreadEntry* entry, bool is_frozen, bool runs) noexcept {
  bool is_steady = entry->lock_waits >= kSteadyWaits && passes - entry->state_pass < kHeldPasses;
  if (is_frozen && is_steady) {
    entry->state = ThreadState::kGilWait;
    return;
  }
  if (runs || (!is_frozen && entry->has_run(now_ns))) {
    entry->state = ThreadState::kRunning;
    return;
  }
  entry->state = threads.state_of(entry, walker.memory().pid(), gil_addresses(*entry));
  entry->state_pass = passes;
  entry->lock_waits = entry->state == ThreadState::kGilWait ? entry->lock_waits + 1 : 0;
}

// Reads all frozen threads, and with them the moving one if there is room; those that make trouble
// are read again as moving ones. True: the lock shows that they were frozen all the while.
bool Sampler::State::read_all_frozen(const ThreadList& list) noexcept {
  uint32_t kept = 0;
  Gil after = {};
  read_after_fetch = frozens > StackWalker::kMaxFetched;
  uint32_t from = 0;
  do {
    StackWalker::Want wants[StackWalker::kMaxFetched];
    uint32_t count = std::min(frozens - from, StackWalker::kMaxFetched);
    bool with_moving = from + count == frozens && fits_moving(count);
    uint32_t first = with_moving ? StackSnapshot::kFetches : 0;
    uint32_t end = first + count;
    for (uint32_t i = 0; i < count; i++) {
      wants[first + i] = {frozen[from + i]->ref, &frozen[from + i]->hint};
    }
    if (with_moving) {
      // Twice, before and after all others, so that some time lies in between.
      fetched_places = {0, end};
      snapshot.want_all(moving[0]->ref, &moving[0]->hint, wants);
      snapshot.want_all(moving[0]->ref, &moving[0]->hint, wants + end);
      end += StackSnapshot::kFetches;
    }
    bool is_needed = end != 0 || (list.is_guess && movings != 0);
    if (!is_needed) return false;
    StackWalker::More codes;
    interner.ask_codes(&codes);
    codes.behind = first + count;
    uint32_t fetched = walker.fetch(wants, end, &codes, &after);
    interner.hear_codes(codes, epoch);
    list_changed = list.is_guess && from == 0 && !walker.as_guessed();
    if (list_changed) return false;
    fetched_moving = with_moving && fetched == end ? moving[0] : nullptr;
    count = std::min(fetched - first, count);
    for (uint32_t i = 0; i < count; i++) {
      ThreadEntry* entry = frozen[from + i];
      if (read_frozen(first + i, entry)) {
        frozen[kept++] = entry;
      } else {
        moving[movings++] = entry;
      }
    }
    from += count;
    if (from < frozens) read_after_fetch = true;
  } while (from < frozens);
  frozens = kept;
  if (kept == 0) return false;
  if (read_after_fetch && !walker.read_gil(refs[0].gil, &after)) return false;
  return list.gil == after;
}

// Whether the thread that holds the lock can be fetched together with these many frozen ones.
bool Sampler::State::fits_moving(uint32_t others) const noexcept {
  return movings == 1 && moving[0]->state == ThreadState::kRunning &&
         moving[0]->hint.strays <= StackSnapshot::kMaxStrays &&
         others + 2 * StackSnapshot::kFetches <= StackWalker::kMaxFetched;
}

void Sampler::State::pass() noexcept {
  passes++;
  counts.passes++;
  epoch++;
  now_ns = clock_ns(CLOCK_MONOTONIC);
  ThreadList guess;
  bool as_guessed = walker.guess(refs, ThreadTable::kMaxThreads, &guess) && read(guess);
  if (!as_guessed) read(walker.threads(refs, ThreadTable::kMaxThreads));
  threads.sweep(passes);
  last_pass_ns = now_ns;
}

// False: the threads were guessed wrongly, and nothing was read.
bool Sampler::State::read(const ThreadList& list) noexcept {
  sort(list);
  fetched_moving = nullptr;
  list_changed = false;
  bool held = read_all_frozen(list);
  if (list_changed) return false;
  counts.torn += list.total - list.count;
  // The moving one that was fetched first, before its copy is overwritten.
  for (uint32_t i = 0; i < movings; i++) {
    if (i > 0) epoch++;
    if (read_moving(moving[i])) {
      write(moving[i], 0);
    } else {
      counts.torn++;
    }
  }
  for (uint32_t i = 0; i < frozens; i++) {
    if (held) {
      write(frozen[i], 0);
      continue;
    }
    epoch++;
    if (read_moving(frozen[i])) {
      write(frozen[i], 0);
    } else {
      counts.torn++;
    }
  }
  return true;
}

Sampler::~Sampler() { delete state_; }

bool Sampler::open(const PythonInfo& python, const CopyWindow* window, Definitions* definitions,
                   RingWriter* ring) noexcept {
  if (python.version == 0) return false;
  // Anew in a forked child: ids, times and threads in it are the parent's.
  delete state_;
  state_ = new (std::nothrow) State;
  if (state_ == nullptr) {
    refusal = "not enough memory for the stack sampler";
    return false;
  }
  State& state = *state_;
  state.names = &names_;
  state.definitions = definitions;
  state.ring = ring;
  state.own_tid = static_cast<uint32_t>(syscall(SYS_gettid));
  state.last_pass_ns = clock_ns(CLOCK_MONOTONIC);
  bool opened = state.walker.open(ProcessMemory(getpid(), window), python) &&
                state.interner.open(state.walker, definitions);
  if (!opened) refusal = "the layout of this Python makes no sense";
  if (opened && !finds_own_tid(state.walker, state.own_tid)) {
    refusal = "the numbers of this Python's threads cannot be found";
    opened = false;
  }
  return opened;
}

void Sampler::pass() noexcept {
  if (state_ != nullptr) state_->pass();
}

void Sampler::restart() noexcept {
  if (state_ == nullptr) return;
  state_->threads.forget_times();
  state_->last_pass_ns = clock_ns(CLOCK_MONOTONIC);
}

SamplerCounts Sampler::counts() const noexcept {
  return state_ != nullptr ? state_->counts : SamplerCounts{};
}

const char* Sampler::why() const noexcept { return refusal; }

void describe_python(PythonInfo* info) noexcept {
  *info = {};
  PythonLayout layout;
  uint32_t version = 0;
  uint64_t runtime = 0;
  const char* refused = pilotlight_python_layout(&version, &runtime, &layout);
  if (refused != nullptr) {
    refusal = refused;
    return;
  }
  std::memcpy(info->offsets, &layout, sizeof(layout));
  info->version = version;
  info->runtime = runtime;
}

}  // namespace pilotlight
