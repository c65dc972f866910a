// native/cuda/collector.h: owns CUPTI in this process: takes it, collects in windows, lets go of
// it.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cstdint>

#include "cuda/buffer_pool.h"
#include "cuda/cupti_library.h"
#include "cuda/decoder.h"
#include "cuda/governor.h"
#include "cuda/gpu_clock.h"
#include "cuda/graph_nodes.h"
#include "cuda/graph_watch.h"
#include "cuda/kernel_names.h"
#include "cuda/launch_table.h"
#include "cuda/launches.h"
#include "cuda/pc_sampler.h"
#include "cuda/pm_sampler.h"
#include "cuda/range_profiler.h"
#include "cuda/window_watch.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

class Collector {
 public:
  // The one of this process; never destroyed.
  static Collector& get() noexcept;

  // From the driver's cuInit. Does as much as works here, and tells what does not.
  void start(const ProviderApi* api) noexcept;
  // At exit: what CUPTI still has is asked for, and waited for a little.
  void finish() noexcept;
  // Another tool wants CUPTI, or has let go of it. Any thread but CUPTI's own.
  void yield(bool to_others) noexcept;
  // Another subscriber is about to come beside us, or has left. CUPTI then shows graphs to both in
  // one way: that which it has by itself, by their nodes.
  void share(bool with_another) noexcept;
  bool is_ours() const noexcept { return holds_.load(std::memory_order_acquire); }
  Library& library() noexcept { return library_; }

 private:
  // Of T2, with what it is called in counters.
  struct Method {
    Tier tier;
    DeviceSampler* sampler;
    Governor governor;  // of the cycles with it, under the same ceiling
    const char *title, *duty, *ratio, *low, *high;
  };

  Collector() noexcept;
  static void* run(void* collector) noexcept;
  static void* run_decoder(void* collector) noexcept;
  bool start_thread(void* (*body)(void*) noexcept) noexcept;
  static void callback(void* user, uint32_t domain, uint32_t id, const void* data) noexcept;
  static void request(uint8_t** buffer, size_t* bytes, size_t* most) noexcept;
  static void complete(Context context, uint32_t stream, uint8_t* buffer, size_t bytes,
                       size_t valid_bytes) noexcept;
  static void request2(uint8_t** buffer, size_t* bytes, size_t* most, void* info) noexcept;
  static void complete2(uint8_t* buffer, size_t bytes, size_t valid_bytes, void* info) noexcept;
  static void after_fork_in_child() noexcept;

  // Under lock_.
  bool take() noexcept;
  void ask_for_hardware_events() noexcept;
  void set_buffers_ours(bool ours) noexcept;
  // nullptr, or why there are none.
  const char* prepare_records() noexcept;
  void release(bool teardown) noexcept;
  void let_go() noexcept;
  void begin_window(WindowKind window, int64_t now_ns) noexcept;
  void end_window(int64_t now_ns) noexcept;
  void set_records(bool on, bool nodes) noexcept;
  void switch_records(bool on) noexcept;
  int64_t switch_ns() const noexcept;
  void mark_window() noexcept;
  void watch_graphs(int64_t now_ns) noexcept;
  void choose_graphs() noexcept;
  void set_external(bool on) noexcept;
  void set_sampling(uint32_t tier) noexcept;

  void loop() noexcept;
  void turn(int64_t now_ns) noexcept;
  void second(int64_t now_ns) noexcept;
  void try_clock(int64_t now_ns) noexcept;
  void decode_all() noexcept;
  void wait_for_decoder() noexcept;
  void tell_plan() noexcept;
  void prepare_exit() noexcept;
  void flush_for_exit() noexcept;
  void tell_exit() noexcept;
  uint64_t left_at_exit() noexcept;
  uint32_t wanted_tier() const noexcept;
  int64_t window_ns(WindowKind window) noexcept;
  WindowKind next_window() noexcept;
  bool is_alone() const noexcept;
  bool can_sample() const noexcept;
  bool samples_next() const noexcept;
  bool ends_early() const noexcept;
  Governor& governor() noexcept { return is_sampling_ ? method_->governor : governor_; }
  void tell(DeviceSampler* sampler, uint32_t domain, uint32_t id,
            const CallbackData& call) noexcept;
  void notice_pause() noexcept;
  void context_begins(Context context) noexcept;
  void context_ends(Context context) noexcept;
  void resource(uint32_t id, const ResourceData& data) noexcept;
  void missing(const char* reason) noexcept;
  void count(const char* name, double value) noexcept;

  // How long CUPTI is left alone when it was refused, or when another tool has just left: that one
  // may still ask for its last records.
  static constexpr int64_t kRetryNs = 2000000000;
  // How long a thread that is not ours waits for ours, if that is inside CUPTI.
  static constexpr int64_t kYieldWaitNs = 1000000000;

  const ProviderApi* api_ = nullptr;
  Library library_;
  BufferPool pool_;
  LaunchTable table_;
  GraphNodes nodes_;
  KernelNames names_;
  GpuClock clock_;
  Launches launches_;
  Decoder decoder_;
  Governor governor_;
  GraphWatch wholes_, node_records_;
  PcSampler pc_;
  PmSampler pm_;
  RangeProfiler range_;
  Method methods_[3];
  Method* method_ = nullptr;  // the one that is asked for

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;  // of CUPTI's state, below
  std::atomic<bool> holds_{false};
  std::atomic<bool> others_{false};      // somebody else wants it or has it
  std::atomic<bool> had_others_{false};  // since we had it last
  std::atomic<bool> finalize_{false};    // asked for: done by the next API call that ends
  std::atomic<bool> forked_{false};
  std::atomic<bool> noticed_pause_{false};
  std::atomic<bool> finishing_{false};
  std::atomic<bool> flushed_{false};  // at exit: all that CUPTI had was handed over
  bool has_threads_ = false;
  bool has_buffers_ = false;
  bool has_clock_ = false;       // and buffers: what records need
  bool has_graphs_ = false;      // as a whole
  bool without_wholes_ = false;  // although asked for, none came
  bool without_nodes_ = false;
  std::atomic<int> sharers_{0};  // subscribers beside us
  bool asked_hardware_ = false;
  bool records_on_ = false;
  bool launches_on_ = false;
  bool nodes_on_ = false;
  struct Switches {
    int64_t last_ns[2];  // what it took
    uint32_t count;
  } switches_[2] = {};        // of records off, and on
  bool is_sampling_ = false;  // this cycle's on window, instead of device records
  std::atomic<DeviceSampler*> notes_contexts_{nullptr};
  std::atomic<bool> saw_graph_{false};

  // Of the thread that decodes. The other one keeps the windows, which must not wait for the agent.
  sem_t decode_;
  std::atomic<bool> decoding_{false};
  bool nobody_reads_ = false;

  // Of the thread that keeps the windows.
  sem_t wake_;
  sem_t finished_;
  ClockKind tick_kind_ = ClockKind::kMonotonic;
  WindowKind window_ = WindowKind::kNone;
  WindowWatch watch_;
  uint32_t tier_ = ~0u;
  int64_t window_end_ns_ = 0;
  int64_t paused_since_ns_ = 0;
  int64_t next_second_ns_ = 0;
  int64_t next_try_ns_ = 0;
  int64_t try_ns_ = 2000000;
  std::atomic<int64_t> retry_ns_{0};
  int64_t busy_until_ns_ = 0;
  uint32_t on_windows_ = 0;
  uint32_t seconds_ = 0;
  uint64_t random_ = 1;
  uint64_t shown_[33] = {};
  double told_[3] = {-1, -1, -1};  // tier; time with records, with launches
  double told_sampling_[3] = {};   // by method
  char missing_[192] = {};
};

}  // namespace pilotlight::cupti
