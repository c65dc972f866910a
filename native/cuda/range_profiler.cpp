// native/cuda/range_profiler.cpp
#include "cuda/range_profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "cuda/metrics.h"

namespace pilotlight::cupti {
namespace {

// The opening in which this thread began a launch: its end counts only there.
thread_local uint32_t opening_of_launch = 0;

uint64_t bits_of(double value) noexcept {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

bool RangeProfiler::find_functions() noexcept {
  const Library& library = *library_;
  set_current_ = set_current_context();
  launching_.store(0);
  opening_.fetch_add(1);
  bool found = target_.find_functions(library) && library.find("cuptiGetDeviceId", &device_of_) &&
               library.find("cuptiRangeProfilerEnable", &enable_) &&
               library.find("cuptiRangeProfilerDisable", &disable_) &&
               library.find("cuptiRangeProfilerSetConfig", &configure_) &&
               library.find("cuptiRangeProfilerStart", &start_) &&
               library.find("cuptiRangeProfilerStop", &stop_) &&
               library.find("cuptiRangeProfilerDecodeData", &decode_) &&
               library.find("cuptiRangeProfilerGetCounterDataSize", &image_size_) &&
               library.find("cuptiRangeProfilerCounterDataImageInitialize", &image_initialize_) &&
               library.find("cuptiRangeProfilerGetCounterDataInfo", &image_info_) &&
               library.find("cuptiProfilerGetCounterAvailability", &availability_);
  for (Profiled& profiled : contexts_) found = found && profiled.metrics.find_functions(library);
  return found;
}

bool RangeProfiler::launches(Context context, const char* kernel) noexcept {
  opening_of_launch = opening_.load(std::memory_order_relaxed);
  launching_.fetch_add(1);
  // How many kernels are in a graph is not known here.
  if (is_edge_.load() || kernel == nullptr) is_unsure_.store(true);
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load(std::memory_order_acquire) != context) continue;
    uint32_t place = profiled.launched.fetch_add(1, std::memory_order_acq_rel);
    if (place >= kMostRanges) return false;
    if (kernel != nullptr) {
      uint32_t name = api_->string(kernel, strnlen(kernel, kMaxStringBytes));
      profiled.kernels[place].store(name, std::memory_order_release);
    }
    return place == kMostRanges - 1;
  }
  return false;
}

void RangeProfiler::launched() noexcept {
  if (opening_of_launch != opening_.load(std::memory_order_relaxed)) return;
  opening_of_launch = 0;
  launching_.fetch_sub(1);
}

void RangeProfiler::begin_edge() noexcept {
  is_edge_.store(true);
  if (launching_.load() > 0) is_unsure_.store(true);
}

bool RangeProfiler::is_full() const noexcept {
  for (const Profiled& profiled : contexts_) {
    if (profiled.is_started && profiled.launched.load(std::memory_order_relaxed) >= kMostRanges) {
      return true;
    }
  }
  return false;
}

void RangeProfiler::forget(Context context) noexcept {
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load() == context && context != nullptr) end(&profiled);
  }
  DeviceSampler::forget(context);
}

Result RangeProfiler::start() noexcept {
  counts_.contexts_out = 0;
  while (Context gone = take_abandoned()) {
    for (Profiled& profiled : contexts_) {
      if (profiled.context.load() != gone) continue;
      // Its image is leaked: CUPTI may still write to it.
      profiled.context.store(nullptr);
      profiled.is_started = false;
      profiled.metrics.close();
      profiled.image = profiled.availability = nullptr;
    }
  }
  if (refused_ == kSuccess && !has_begun_) {
    refused_ = target_.begin();
    has_begun_ = refused_ == kSuccess;
  }
  for (uint32_t i = 0; i < kContexts && refused_ == kSuccess; i++) {
    if (noted(i) != nullptr) refused_ = begin(noted(i));
  }
  is_unsure_.store(false);
  begin_edge();
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load() == nullptr || refused_ != kSuccess) continue;
    refused_ = start_one(&profiled);
  }
  is_edge_.store(false);
  return refused_;
}

// Enables what is not enabled yet.
Result RangeProfiler::begin(Context context) noexcept {
  Profiled* place = nullptr;
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load() == context) return kSuccess;
    if (profiled.context.load() == nullptr && place == nullptr) place = &profiled;
  }
  uint32_t device = 0;
  if (place == nullptr || device_of_(context, &device) != kSuccess) {
    counts_.contexts_out++;
    return kSuccess;
  }
  Current current(set_current_, context);
  RangeEnableParams params = {};
  params.struct_bytes = range_enable_bytes(library_->facts().version);
  params.context = context;
  Result result = enable_(&params);
  if (result != kSuccess) return result;
  place->profiler = params.profiler;
  place->device = device;
  place->context.store(context, std::memory_order_release);
  result = prepare(place);
  if (result != kSuccess) end(place);
  return result;
}

Result RangeProfiler::prepare(Profiled* profiled) noexcept {
  char text[48];
  int bytes =
      snprintf(text, sizeof(text), "GPU %u kernels by the range profiler", profiled->device);
  uint32_t name = api_->string(text, static_cast<size_t>(bytes));
  profiled->track =
      api_->track(name, TrackKind::kEngine, static_cast<uint16_t>(profiled->device), 0);
  Result result = kSuccess;
  const char* chip = target_.chip_of(profiled->device, &result);
  if (result == kSuccess) result = read_availability(profiled);
  if (result != kSuccess) return result;
  MetricSet& metrics = profiled->metrics;
  result = metrics.open(ProfilerType::kRange, chip, profiled->availability, kKernelMetrics,
                        kKernelMetricCount);
  if (result != kSuccess) return result;
  for (uint32_t i = 0; i < metrics.count(); i++) {
    profiled->labels[i] = api_->string(metrics.label(i), strlen(metrics.label(i)));
  }
  return make_image(profiled);
}

// Which counters this process may use on this device.
Result RangeProfiler::read_availability(Profiled* profiled) noexcept {
  ContextAvailabilityParams params = {};
  params.struct_bytes = context_availability_bytes(library_->facts().version);
  params.context = profiled->context.load();
  params.with_device_counters = 1;  // those of the memory
  Result result = availability_(&params);
  if (result != kSuccess) return result;
  if (params.bytes == 0 || params.bytes > kMostImageBytes) return kOutOfMemory;
  profiled->availability = static_cast<uint8_t*>(calloc(1, params.bytes));
  if (profiled->availability == nullptr) return kOutOfMemory;
  params.image = profiled->availability;
  return availability_(&params);
}

Result RangeProfiler::make_image(Profiled* profiled) noexcept {
  MetricSet& metrics = profiled->metrics;
  RangeImageSizeParams size = {sizeof(size),    nullptr,     profiled->profiler, metrics.names(),
                               metrics.count(), kMostRanges, kMostRanges,        0};
  Result result = image_size_(&size);
  if (result != kSuccess) return result;
  if (size.bytes == 0 || size.bytes > kMostImageBytes) return kOutOfMemory;
  profiled->image = static_cast<uint8_t*>(calloc(1, size.bytes));
  if (profiled->image == nullptr) return kOutOfMemory;
  profiled->image_bytes = size.bytes;
  return kSuccess;
}

Result RangeProfiler::start_one(Profiled* profiled) noexcept {
  Current current(set_current_, profiled->context.load());
  RangeImageInitializeParams empty = {sizeof(empty), nullptr, profiled->profiler,
                                      profiled->image_bytes, profiled->image};
  Result result = image_initialize_(&empty);
  if (result != kSuccess) return result;
  RangeConfigureParams params = {};
  params.struct_bytes = kRangeConfigureBytes;
  params.profiler = profiled->profiler;
  params.config_bytes = profiled->metrics.config_bytes();
  params.config = profiled->metrics.config();
  params.image_bytes = profiled->image_bytes;
  params.image = profiled->image;
  params.range = RangeMode::kEachKernel;
  // All metrics are of one pass, so no kernel is run twice.
  params.replay = ReplayMode::kKernel;
  params.most_ranges = kMostRanges;
  params.nesting_levels = 1;
  params.least_nesting_level = 1;
  result = configure_(&params);
  if (result != kSuccess) return result;
  for (auto& kernel : profiled->kernels) kernel.store(0, std::memory_order_relaxed);
  profiled->launched.store(0, std::memory_order_release);
  RingWriter* ring = api_->ring();
  profiled->start_ticks = ring != nullptr ? ticks_of(ring->clock()) : 0;
  RangeParams start = {sizeof(start), nullptr, profiled->profiler};
  result = start_(&start);
  profiled->is_started = result == kSuccess;
  return result;
}

void RangeProfiler::stop() noexcept {
  begin_edge();
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load() == nullptr) continue;
    Current current(set_current_, profiled.context.load());
    stop_one(&profiled);
  }
  is_edge_.store(false);
}

void RangeProfiler::stop_one(Profiled* profiled) noexcept {
  if (!profiled->is_started) return;
  profiled->is_started = false;
  RangeStopParams params = {};
  params.struct_bytes = kRangeStopBytes;
  params.profiler = profiled->profiler;
  Result result = stop_(&params);
  if (result == kSuccess) result = read(profiled);
  if (result != kSuccess) refused_ = result;
}

Result RangeProfiler::read(Profiled* profiled) noexcept {
  RangeDecodeParams decode = {sizeof(decode), nullptr, profiled->profiler, 0};
  Result result = decode_(&decode);
  if (result != kSuccess) return result;
  counts_.dropped += decode.dropped;
  RangeImageInfoParams info = {sizeof(info), nullptr, profiled->image, profiled->image_bytes, 0};
  result = image_info_(&info);
  if (result != kSuccess) return result;
  size_t total = std::min<size_t>(info.total, kMostRanges);
  uint32_t launched = profiled->launched.load(std::memory_order_acquire);
  // Else who is who is not known.
  bool is_named = launched == total + decode.dropped && !is_unsure_.load();
  for (size_t i = 0; i < total; i++) {
    write(profiled, i, is_named ? profiled->kernels[i].load(std::memory_order_acquire) : 0);
  }
  return kSuccess;
}

void RangeProfiler::write(Profiled* profiled, size_t place, uint32_t kernel) noexcept {
  RingWriter* ring = api_->ring();
  double values[MetricSet::kMost];
  Result result = profiled->metrics.evaluate(profiled->image, profiled->image_bytes, place, values);
  if (result != kSuccess || ring == nullptr) {
    counts_.lost++;
    return;
  }
  if (kernel == 0) counts_.unnamed++;
  ordinal_++;
  bool written = true;
  for (uint32_t i = 0; i < profiled->metrics.count(); i++) {
    pilotlight::Activity activity = {};
    activity.track = profiled->track;
    activity.kind = static_cast<uint32_t>(ActivityKind::kKernelMetric);
    activity.correlation = ordinal_;
    activity.range = profiled->labels[i];
    activity.detail = bits_of(values[i]);
    written =
        ring->write_at(RecordType::kActivity, kernel, activity, profiled->start_ticks) && written;
  }
  (written ? counts_.kernels : counts_.lost)++;
}

// Also inside CUPTI's callback before a context ends, where no CUDA call may be made.
void RangeProfiler::end(Profiled* profiled) noexcept {
  begin_edge();
  stop_one(profiled);
  is_edge_.store(false);
  profiled->context.store(nullptr, std::memory_order_release);
  RangeParams params = {sizeof(params), nullptr, profiled->profiler};
  disable_(&params);
  profiled->metrics.close();
  free(profiled->availability);
  free(profiled->image);
  profiled->availability = profiled->image = nullptr;
}

void RangeProfiler::close() noexcept {
  for (Profiled& profiled : contexts_) {
    if (profiled.context.load() == nullptr) continue;
    Current current(set_current_, profiled.context.load());
    end(&profiled);
  }
  if (has_begun_) target_.end();
  has_begun_ = false;
}

}  // namespace pilotlight::cupti
