// native/cuda/governor.cpp
#include "cuda/governor.h"

#include <algorithm>
#include <cmath>

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
constexpr uint32_t kLeastPairs = 3;
constexpr double kFirstDuty = 0.1;
// At least in a window; more where some are much longer than most, by their mean: a few of those
// would say little, and to one side.
constexpr double kStepsInWindow = 5;
constexpr double kStepsInSkewed = 20;
constexpr double kSkewed = 0.05;

// Two-sided 95 % of Student's t, by degrees of freedom.
double t_of(uint32_t freedom) noexcept {
  constexpr double kTable[] = {12.71, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
                               2.20,  2.18,  2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08,
                               2.07,  2.07,  2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04};
  return freedom <= 30 ? kTable[freedom] : 1.96 + 2.4 / freedom;
}

// Of the variance of an on window's mean less that of the two off windows around it: what one of
// these has in common with the next on window's. A sixth where all have as many steps.
double shared_ratio(uint32_t on_steps, uint32_t off_steps) noexcept {
  double on = 1.0 / std::max(on_steps, 1u), off = 1.0 / std::max(off_steps, 1u);
  return off / 4 / (on + off / 2);
}

}  // namespace

double typical(double* values, uint32_t count) noexcept {
  if (count == 0) return 0;
  std::sort(values, values + count);
  // Rounded up: of three steps in a short window the longest would count, of forty in a long one
  // the longest ten do not, and that would look like a cost.
  uint32_t cut = std::min((count + 3) / 4, (count - 1) / 2);
  double sum = 0;
  for (uint32_t i = cut; i < count - cut; i++) sum += values[i];
  return sum / (count - 2 * cut);
}

Governor::Governor(const GovernorSettings& settings) noexcept
    : settings_(settings), launch_ns_(kLaunchNs), record_ns_(kRecordNs) {
  auto period = static_cast<double>(settings.period_ns);
  plan_ = {kFirstDuty, static_cast<int64_t>(kFirstDuty * period),
           static_cast<int64_t>((1 - kFirstDuty) * period), 0};
}

void Governor::keep(const WindowFacts& window, Steps* steps) noexcept {
  steps->window_ns = static_cast<double>(window.duration_ns);
  steps->count = window.steps;
  if (window.steps > 0) std::copy_n(window.edges_ns, window.steps + 1, steps->edges_ns);
}

// The typical step of a window of that width, wherever in this one it would lie: what is typical of
// as many as cover it, for a busy moment of the machine spoils some of them.
double Governor::typical_in(const Steps& steps, double width_ns) noexcept {
  if (steps.count == 0) return 0;
  // Of the steps before the first that was kept nothing is known.
  double first_ns = steps.count == kMaxSteps ? steps.edges_ns[0] : 0;
  double room_ns = steps.window_ns - first_ns - width_ns;
  auto windows = static_cast<uint32_t>(std::max(room_ns / width_ns, 0.0)) + 1;
  if (room_ns > 0 && windows < kMaxSteps) windows++;
  double logs[kMaxSteps], lengths[kMaxSteps];
  uint32_t told = 0;
  for (uint32_t i = 0; i < windows; i++) {
    double begin_ns = first_ns + (windows > 1 ? room_ns * i / (windows - 1) : 0);
    const double* end = steps.edges_ns + steps.count + 1;
    const double* edge = std::lower_bound(steps.edges_ns, end, begin_ns);
    uint32_t count = 0;
    for (; edge + 1 < end && edge[1] <= begin_ns + width_ns; edge++) {
      lengths[count++] = edge[1] - edge[0];
    }
    if (count == 0) continue;
    logs[told++] = std::log(typical(lengths, count));
  }
  return told > 0 ? std::exp(typical(logs, told)) : 0;
}

void Governor::compare(double on_ns, double off_ns, double shared) noexcept {
  ratios_[compared_ % kKept] = std::log(on_ns / off_ns);
  shared_[compared_ % kKept] = shared;
  compared_++;
  estimate();
}

// The mean of the middle three fifths, with the interval that belongs to it (Yuen's): a pause of
// the machine in one window is neither group's fault, and would hide all that the others say.
void Governor::estimate() noexcept {
  uint32_t n = std::min(compared_, kKept);
  overhead_.pairs = n;
  if (n < kLeastPairs) return;
  double sorted[kKept];
  std::copy(ratios_, ratios_ + n, sorted);
  std::sort(sorted, sorted + n);
  uint32_t cut = n / 5, kept = n - 2 * cut;
  double least = sorted[cut], most = sorted[n - 1 - cut];
  double mean = 0, center = 0;
  for (uint32_t i = cut; i < n - cut; i++) mean += sorted[i] / kept;
  auto cut_to_middle = [&](uint32_t i) { return std::clamp(ratios_[i], least, most); };
  for (uint32_t i = 0; i < n; i++) center += cut_to_middle(i) / n;
  // Neighbours share an off window, so they go together: at least as much as its steps, by their
  // number, have part in the variance. What that hides is added back.
  double squares = 0, together = 0, shared = 0;
  for (uint32_t i = 0; i < n; i++) {
    double deviation = cut_to_middle(i) - center;
    squares += deviation * deviation;
    shared += shared_[i] / n;
    bool is_first = i == (compared_ > kKept ? compared_ % kKept : 0);
    if (!is_first) together += deviation * (cut_to_middle((i + kKept - 1) % kKept) - center);
  }
  double spread = squares + 2 * std::max(together, squares * shared);
  double error = std::sqrt(spread / (static_cast<double>(kept) * (kept - 1)));
  overhead_.ratio = std::expm1(mean);
  overhead_.low = std::expm1(mean - t_of(kept - 1) * error);
  overhead_.high = std::expm1(mean + t_of(kept - 1) * error);
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

void Governor::compare_windows() noexcept {
  // All are looked at in windows of one width. Of a wide one the middle steps say something else
  // than of a narrow one, where lengths are spread to one side; and long steps seldom fit into it.
  double width_ns = std::min(on_.window_ns, off_.window_ns);
  if (off_before_.count > 0) width_ns = std::min(width_ns, off_before_.window_ns);
  double on_ns = typical_in(on_, width_ns), off_ns = typical_in(off_, width_ns);
  double before_ns = typical_in(off_before_, width_ns);
  // An on window stands between two off windows: what drifts slowly cancels out.
  if (on_ns > 0 && off_ns > 0) {
    compare(on_ns, before_ns > 0 ? std::sqrt(off_ns * before_ns) : off_ns,
            shared_ratio(on_.count, off_.count));
  }
}

void Governor::end_cycle(const WindowFacts& off) noexcept {
  keep(off, &off_);
  // Without steps there is nothing to compare, and no width: a window that was cut off has next to
  // none.
  if (on_.count > 0 && off_.count > 0) compare_windows();
  learn_steps();
  std::swap(off_before_, off_);
  on_.count = 0;
  decide();
}

// How long windows must be for their steps to tell.
void Governor::learn_steps() noexcept {
  if (off_.count == 0) return;
  step_ns_ = (off_.edges_ns[off_.count] - off_.edges_ns[0]) / off_.count;
  double typical_ns = typical_in(off_, off_.window_ns);
  is_skewed_ = step_ns_ > typical_ns * (1 + kSkewed);
}

// What device records cost while they are on, as far as it is known: on the careful side.
double Governor::record_ratio() const noexcept {
  double calls = launches_per_ns_ * record_ns_;
  double known = std::max({cupti_ratio_, calls, 1e-5});
  // Launches may have to wait while records are turned on and off, and steps that see it lie in no
  // window: it is reckoned as if they all did.
  if (overhead_.pairs < kLeastPairs) return known + switch_ratio_;
  uint32_t kept = overhead_.pairs - 2 * (overhead_.pairs / 5);
  double error = (overhead_.high - overhead_.ratio) / t_of(kept - 1);
  return std::max(known, overhead_.ratio + error) + switch_ratio_;
}

double Governor::spent_ratio() const noexcept {
  double heard = plan_.quiet_ns == 0 ? 1 : plan_.duty * (1 + kPlainShare);
  return launch_ratio_ * heard + record_ratio() * plan_.duty;
}

void Governor::decide() noexcept {
  double target = settings_.ceiling_ratio * kTarget;
  double records = record_ratio();
  // Launches all the time as long as they leave something of the budget to the records.
  bool always = launch_ratio_ <= target * 0.8;
  double duty = always ? (target - launch_ratio_) / records
                       : target / (launch_ratio_ * (1 + kPlainShare) + records);
  duty = std::min({duty, settings_.most_duty, plan_.duty * kMostRise});
  if (overrun_) duty = std::min(duty, plan_.duty / 2);
  overrun_ = false;
  duty = std::max(duty, settings_.least_duty);
  double steps_ns = step_ns_ * (is_skewed_ ? kStepsInSkewed : kStepsInWindow);
  double on = std::max({duty * static_cast<double>(settings_.period_ns),
                        static_cast<double>(settings_.least_on_ns), steps_ns});
  double off = std::max(on * (1 - duty) / duty, steps_ns);
  double plain = always ? off : std::min(on * kPlainShare, off / 2);
  plan_ = {duty, static_cast<int64_t>(on), static_cast<int64_t>(plain),
           static_cast<int64_t>(off - plain)};
  if (always) plan_.quiet_ns = 0;
}

}  // namespace pilotlight::cupti
