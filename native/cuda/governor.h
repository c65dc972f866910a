// native/cuda/governor.h: how much of the time device records are collected. Pure: no clock, no
// CUPTI.
//
// Time is cut into cycles of an on window (device records) and off windows. Steps inside the two
// are compared, and so are the lengths of the launching calls: the off windows are the control
// group, so what collection costs is measured all the time. The share of on windows follows from
// that and from what launches cost, so that the whole stays below the ceiling. Over budget it
// collects less; what was collected is kept.
#pragma once

#include <cstdint>

#include "cuda/step_comparison.h"

namespace pilotlight::cupti {

struct GovernorSettings {
  double ceiling_ratio = 0.01;  // of step time, and of the launching threads' time
  double most_duty = 0.9;       // the rest is the control group
  double least_duty = 0.0005;
  int64_t period_ns = 1000000000;  // of a cycle
  int64_t least_on_ns = 10000000;
};

// None: CUPTI is not used. On: with device records. Plain: with launch callbacks only. Quiet: with
// nothing. A cycle is on, plain and, where launches are too many to be heard all the time, quiet.
enum class WindowKind { kNone, kOn, kPlain, kQuiet };

// What one window saw.
struct WindowFacts {
  WindowKind kind;
  int64_t duration_ns;
  uint32_t steps;          // that lie fully inside, the last kMaxSteps of them
  const double* edges_ns;  // since it began, one more than steps: where one ends the next begins
  double step_ns;          // typical of the last ones, wherever they lie; 0: not known
  uint64_t launches;       // heard
  int64_t launch_cost_ns;  // of our callbacks, all threads together
  uint64_t calls;          // timed, of those that launch a kernel
  double call_ns;          // mean length of such a call between our callbacks; 0: none
  int64_t cupti_cost_ns;   // that CUPTI itself reported
  int64_t switch_ns;       // turning records on and off once
  bool overrun;            // records were lost for lack of room
};

struct Plan {
  double duty;  // share of time with device records
  int64_t on_ns, plain_ns;
  int64_t quiet_ns;  // 0: launches are heard all the time
  int64_t least_ns;  // of any of them, for steps to tell
};

class Governor {
 public:
  explicit Governor(const GovernorSettings& settings) noexcept;

  // At the end of each window, in the order on, plain, quiet, on...
  void observe(const WindowFacts& window) noexcept;
  const Plan& plan() const noexcept { return plan_; }
  // What comes after that one. A cycle ends as it was planned, whatever the next one will be.
  WindowKind after(WindowKind kind) const noexcept;
  // Of the next window of that kind, by a number that is as likely as any other: as planned on the
  // average.
  int64_t length_ns(WindowKind kind, uint64_t random) const noexcept;
  const Overhead& overhead() const noexcept { return steps_.overhead(); }
  // Of the launching threads' time: launch callbacks while they are on.
  double launch_ratio() const noexcept { return launch_ratio_; }
  // What all of it costs under the present plan, by the governor's own reckoning.
  double spent_ratio() const noexcept;

 private:
  static void keep(const WindowFacts& window, WindowSteps* steps) noexcept;
  void end_cycle(const WindowFacts& off) noexcept;
  void learn_steps(double last_ns) noexcept;
  double steps_ns() const noexcept;
  void decide() noexcept;
  double known_ratio() const noexcept;
  double record_ratio() const noexcept;
  bool always_hears() const noexcept;
  double duty_at(double records) const noexcept;
  double least_unsure(double on_ns) const noexcept;

  GovernorSettings settings_;
  Plan plan_;
  StepComparison steps_;
  WindowSteps off_before_ = {};  // of the last off window
  WindowSteps on_ = {};          // of the on window since
  WindowSteps off_ = {};
  double step_ns_ = 0;      // mean
  bool in_cycle_ = false;   // more than its on window is still to come
  bool is_skewed_ = false;  // some steps are much longer than most
  double launch_ratio_ = 0;
  double launches_per_ns_ = 0;  // in on windows
  double call_on_ns_ = 0;
  uint64_t calls_on_ = 0;
  double launch_ns_;  // of our callbacks of one launch
  double record_ns_;  // of one device record on the launching thread
  bool has_record_ns_ = false;
  double cupti_ratio_ = 0;
  double switch_ratio_ = 0;
  bool has_rate_ = false;
  bool overrun_ = false;
};

}  // namespace pilotlight::cupti
