// native/cuda/step_comparison.h: by how much steps are longer in on windows than in the off windows
// around them. Pure.
#pragma once

#include <cstdint>

namespace pilotlight::cupti {

constexpr uint32_t kMaxSteps = 512;  // looked at in a window

// When the steps of a window began, the last kMaxSteps of them.
struct WindowSteps {
  double window_ns;
  uint32_t count;
  double edges_ns[kMaxSteps + 1];  // since it began: where one step ends the next begins
};

// By how much steps are longer with device records, with its 95 % interval.
struct Overhead {
  uint32_t pairs;  // of windows compared; fewer than kLeastPairs: nothing is known yet
  double ratio, low, high;
};

constexpr uint32_t kLeastPairs = 3;

class StepComparison {
 public:
  // An on window and the off windows before and after it, all with steps.
  void compare(const WindowSteps& before, const WindowSteps& on, const WindowSteps& after) noexcept;
  bool is_known() const noexcept { return overhead_.pairs >= kLeastPairs; }
  const Overhead& overhead() const noexcept { return overhead_; }
  // By how much the ratio may well be higher: one standard error.
  double error() const noexcept;

 private:
  static constexpr uint32_t kKept = 64;
  static constexpr uint32_t kStretches = 3;  // of a window, looked at
  // Logarithms of the typical step in stretches of a window: as far below as above.
  struct Lengths {
    uint32_t count;
    double logs[kStretches];
  };
  struct Cycle {
    Lengths before, on, after;
  };
  // How much longer a stretch of an on window is than one of an off window around it.
  struct Difference {
    double log;
    float weight;
    uint32_t cycle;
  };
  // Of all differences: the mean of the middle ones, and between which these lie.
  struct Middle {
    double mean, least, most;
  };
  static Lengths lengths_of(const WindowSteps& steps, double width_ns) noexcept;
  static uint32_t differences_of(const Cycle& cycle, uint32_t number, Difference* into) noexcept;
  static Middle middle_of(Difference* all, uint32_t count, uint32_t cycles) noexcept;
  double spread_of(const double* cycles, uint32_t count) const noexcept;
  void estimate() noexcept;

  Cycle cycles_[kKept] = {};
  uint32_t compared_ = 0;
  Overhead overhead_ = {};
};

// The mean of the middle half: a pause of the machine is neither group's fault. Sorts in place.
double typical(double* values, uint32_t count) noexcept;

}  // namespace pilotlight::cupti
