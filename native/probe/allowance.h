// native/probe/allowance.h: how much CPU time the probe's own thread may take.
//
// The default set may cost a job a hundredth of its CPU time. What adapters put around calls comes
// first, and is reckoned from the records that the job's threads wrote; stacks get what that
// leaves, with some room to spare. A job whose steps are so short that nothing is left is looked at
// all the same, and so is one that only waits; and no job is worth more than a hundredth of a core.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pilotlight {

constexpr double kDefaultSetOfJob = 0.008;
constexpr double kStacksOfJob = 0.003;
constexpr double kLeastOfCore = 0.002;
constexpr double kMostOfCore = 0.01;
// A record with the call around which it is written, in a program that leaves little of us in the
// caches (bench/frameworks.py, the small step).
constexpr double kRecordCostNs = 400;
constexpr double kRecordBytes = 32;

// Of the last `elapsed_ns`, in which the process took `job_cpu_ns` and its threads wrote so much.
inline double stacks_allowance_ns(int64_t elapsed_ns, int64_t job_cpu_ns,
                                  uint64_t written_bytes) noexcept {
  auto elapsed = static_cast<double>(elapsed_ns);
  auto job = static_cast<double>(job_cpu_ns);
  double adapters = static_cast<double>(written_bytes) / kRecordBytes * kRecordCostNs;
  double left = std::max(kDefaultSetOfJob * job - adapters, kStacksOfJob * job);
  return std::clamp(left, kLeastOfCore * elapsed, kMostOfCore * elapsed);
}

}  // namespace pilotlight
