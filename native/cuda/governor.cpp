// native/cuda/governor.cpp
#include "cuda/governor.h"

#include <algorithm>

namespace pilotlight::cupti {
namespace {

// Aims below the ceiling: what is not seen (CUPTI's way into a callback) needs room too.
constexpr double kTarget = 0.7;
// For a callback's way through CUPTI, which our own clock does not see. A guess, to be on the safe
// side where no steps tell.
constexpr double kDispatchNs = 40;
// For one device record on the launching thread, until windows have told. A guess as well.
constexpr double kRecordNs = 1000;
// Of an on window: how long launches alone are heard after it where they cannot always be.
constexpr double kPlainShare = 0.25;
// For our callbacks of one launch, until that many launches have told.
constexpr double kLaunchNs = 150;
constexpr double kLaunchesTell = 256;
// Of the newest measurement in what is known of calls: some wait, and are seldom caught. Less where
// few were timed.
constexpr double kNewest = 0.3;
constexpr double kCallsTell = 16;
constexpr double kMostRise = 1.6;
constexpr double kFirstDuty = 0.1;
// How long until the next on window at most, where steps do not tell: in periods, and in on windows
// (as many that a cost of a fifth would be 1 %).
constexpr double kUnsurePeriods = 4;
constexpr double kUnsureWindows = 19;
// At least in a window; more where some are much longer than most, by their mean: a few of those
// would say little, and to one side.
constexpr double kStepsInWindow = 5;
constexpr double kStepsInSkewed = 20;
constexpr double kSkewed = 0.05;
// Of long steps fewer, and of the longest none are waited for. Windows may be a quarter shorter.
constexpr double kLeastSteps = 2.7;
constexpr double kLongWindowNs = 60e9;
constexpr double kLongestNs = 600e9;

}  // namespace

Governor::Governor(const GovernorSettings& settings) noexcept
    : settings_(settings), launch_ns_(kLaunchNs), record_ns_(kRecordNs) {
  auto period = static_cast<double>(settings.period_ns);
  plan_ = {kFirstDuty, static_cast<int64_t>(kFirstDuty * period),
           static_cast<int64_t>((1 - kFirstDuty) * period), 0, 0};
}

// Work may have a rhythm of its own, often a second as well: it must not be met at the same beat
// for many cycles. So where its steps leave room, an off window is anything up to almost twice as
// long.
int64_t Governor::length_ns(WindowKind kind, uint64_t random) const noexcept {
  int64_t length = kind == WindowKind::kOn      ? plan_.on_ns
                   : kind == WindowKind::kPlain ? plan_.plain_ns
                                                : plan_.quiet_ns;
  int64_t spread = length / 4;
  if (kind != WindowKind::kOn) {
    spread = std::clamp(length - plan_.least_ns * 3 / 4, spread, length * 3 / 4);
  }
  return length - spread + static_cast<int64_t>(random % static_cast<uint64_t>(2 * spread + 1));
}

WindowKind Governor::after(WindowKind kind) const noexcept {
  if (kind == WindowKind::kOn) return WindowKind::kPlain;
  return kind == WindowKind::kPlain && in_cycle_ ? WindowKind::kQuiet : WindowKind::kOn;
}

void Governor::keep(const WindowFacts& window, WindowSteps* steps) noexcept {
  steps->window_ns = static_cast<double>(window.duration_ns);
  steps->count = window.steps;
  if (window.steps > 0) std::copy_n(window.edges_ns, window.steps + 1, steps->edges_ns);
}

void Governor::observe(const WindowFacts& window) noexcept {
  auto duration = static_cast<double>(std::max<int64_t>(window.duration_ns, 1));
  bool on = window.kind == WindowKind::kOn;
  if (window.kind != WindowKind::kQuiet) {
    auto launches = static_cast<double>(window.launches);
    double rate = launches / duration;
    if (launches > 0) {
      double each = static_cast<double>(window.launch_cost_ns) / launches;
      launch_ns_ += (each - launch_ns_) * launches / (launches + kLaunchesTell);
    }
    double ratio = rate * (launch_ns_ + kDispatchNs);
    // The newest counts for half, so that a storm is met within seconds.
    launch_ratio_ = has_rate_ ? (launch_ratio_ + ratio) / 2 : ratio;
    if (on) launches_per_ns_ = has_rate_ ? (launches_per_ns_ + rate) / 2 : rate;
    has_rate_ = true;
  }
  overrun_ = overrun_ || window.overrun;
  if (on) {
    in_cycle_ = true;
    keep(window, &on_);
    call_on_ns_ = window.call_ns;
    calls_on_ = window.calls;
    cupti_ratio_ = (cupti_ratio_ + static_cast<double>(window.cupti_cost_ns) / duration) / 2;
    switch_ratio_ = static_cast<double>(window.switch_ns) / duration;
    return;
  }
  if (window.kind == WindowKind::kPlain && call_on_ns_ > 0 && window.call_ns > 0) {
    auto calls = static_cast<double>(std::min(calls_on_, window.calls));
    double told = calls / (calls + kCallsTell);
    double longer = call_on_ns_ - window.call_ns;
    record_ns_ += (longer - record_ns_) * told * (has_record_ns_ ? kNewest : 1);
    has_record_ns_ = true;
  }
  // Where there is a quiet window it is the control group.
  if (window.kind == WindowKind::kQuiet || plan_.quiet_ns == 0) end_cycle(window);
}

void Governor::end_cycle(const WindowFacts& off) noexcept {
  in_cycle_ = false;
  keep(off, &off_);
  // Without steps there is nothing to compare, and no width: a window that was cut off has next to
  // none. The first of all windows is not compared: there programs warm up, and it is on.
  if (off_before_.count > 0 && on_.count > 0 && off_.count > 0) {
    steps_.compare(off_before_, on_, off_);
  }
  learn_steps(off.step_ns);
  std::swap(off_before_, off_);
  on_.count = 0;
  decide();
}

// How long windows must be for their steps to tell.
void Governor::learn_steps(double last_ns) noexcept {
  // Longer than a window, perhaps: none would ever lie inside.
  if (off_.count == 0 && last_ns > 0) step_ns_ = last_ns;
  if (off_.count == 0) return;
  step_ns_ = (off_.edges_ns[off_.count] - off_.edges_ns[0]) / off_.count;
  double lengths[kMaxSteps];
  for (uint32_t i = 0; i < off_.count; i++) lengths[i] = off_.edges_ns[i + 1] - off_.edges_ns[i];
  is_skewed_ = step_ns_ > typical(lengths, off_.count) * (1 + kSkewed);
}

// What is known of the cost of device records without steps. Launches may have to wait while
// records are turned on and off, and steps that see it lie in no window: it is reckoned as if they
// all did.
double Governor::known_ratio() const noexcept {
  double calls = launches_per_ns_ * record_ns_;
  return std::max({cupti_ratio_, calls, 1e-5}) + switch_ratio_;
}

// What they cost while they are on, as far as it is known: on the careful side.
double Governor::record_ratio() const noexcept {
  if (!steps_.is_known()) return known_ratio();
  double told = steps_.overhead().ratio + steps_.error();
  return std::max(known_ratio(), told + switch_ratio_);
}

// What windows must hold, so that their steps tell: as many as that, unless it takes too long.
double Governor::steps_ns() const noexcept {
  double wanted_ns = step_ns_ * (is_skewed_ ? kStepsInSkewed : kStepsInWindow);
  // At least one must lie inside wherever the window begins.
  double least_ns = step_ns_ * kLeastSteps;
  return least_ns > kLongestNs ? 0 : std::max(std::min(wanted_ns, kLongWindowNs), least_ns);
}

double Governor::spent_ratio() const noexcept {
  double heard = plan_.quiet_ns == 0 ? 1 : plan_.duty * (1 + kPlainShare);
  return launch_ratio_ * heard + record_ratio() * plan_.duty;
}

// Launches all the time as long as they leave something of the budget to the records.
bool Governor::always_hears() const noexcept {
  return launch_ratio_ <= settings_.ceiling_ratio * kTarget * 0.8;
}

double Governor::duty_at(double records) const noexcept {
  double target = settings_.ceiling_ratio * kTarget;
  return always_hears() ? (target - launch_ratio_) / records
                        : target / (launch_ratio_ * (1 + kPlainShare) + records);
}

// Where steps do not even tell whether there is a cost, the machine's noise must not end the
// comparison that would tell: the next on window comes soon enough, if what else is known allows
// it.
double Governor::least_unsure(double on_ns) const noexcept {
  if (!steps_.is_known() || steps_.overhead().low > 0) return 0;
  double longest_ns =
      std::max(kUnsurePeriods * static_cast<double>(settings_.period_ns), kUnsureWindows * on_ns);
  return std::min(on_ns / (on_ns + longest_ns), duty_at(known_ratio()));
}

void Governor::decide() noexcept {
  double least_on_ns = std::max(static_cast<double>(settings_.least_on_ns), steps_ns());
  double duty = std::max(duty_at(record_ratio()), least_unsure(least_on_ns));
  duty = std::min({duty, settings_.most_duty, plan_.duty * kMostRise});
  if (overrun_) duty = std::min(duty, plan_.duty / 2);
  overrun_ = false;
  duty = std::max(duty, settings_.least_duty);
  double on = std::max(duty * static_cast<double>(settings_.period_ns), least_on_ns);
  double off = std::max(on * (1 - duty) / duty, steps_ns());
  bool always = always_hears();
  double plain = always ? off : std::min(on * kPlainShare, off / 2);
  plan_ = {duty, static_cast<int64_t>(on), static_cast<int64_t>(plain),
           static_cast<int64_t>(off - plain), static_cast<int64_t>(steps_ns())};
  if (always) plan_.quiet_ns = 0;
}

}  // namespace pilotlight::cupti
