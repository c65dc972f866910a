// native/cuda/pm_sampler.cpp
#include "cuda/pm_sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "cuda/metrics.h"

namespace pilotlight::cupti {
namespace {

constexpr size_t kHardwareBufferBytes = 32u << 20;
constexpr uint64_t kIntervalNs = 1000000;
constexpr uint64_t kLongestIntervalNs = 128000000;
// Where a device counts cycles only: about that many of its system clock in a nanosecond.
constexpr double kCyclesPerNs = 1.5;
constexpr uint32_t kSamplesAtOnce = 128;
constexpr uint32_t kMostDecodes = 64;

// These have no trigger by time.
bool counts_cycles(const char* chip) noexcept {
  return strncmp(chip, "TU", 2) == 0 || strcmp(chip, "GA100") == 0;
}

}  // namespace

bool PmSampler::find_functions() noexcept {
  const Library& library = *library_;
  bool found = target_.find_functions(library) && library.find("cuptiGetDeviceId", &device_of_) &&
               library.find("cuptiPmSamplingEnable", &enable_) &&
               library.find("cuptiPmSamplingDisable", &disable_) &&
               library.find("cuptiPmSamplingSetConfig", &configure_) &&
               library.find("cuptiPmSamplingStart", &start_) &&
               library.find("cuptiPmSamplingStop", &stop_) &&
               library.find("cuptiPmSamplingDecodeData", &decode_) &&
               library.find("cuptiPmSamplingGetCounterAvailability", &availability_) &&
               library.find("cuptiPmSamplingGetCounterDataSize", &image_size_) &&
               library.find("cuptiPmSamplingCounterDataImageInitialize", &image_initialize_) &&
               library.find("cuptiPmSamplingGetCounterDataInfo", &image_info_) &&
               library.find("cuptiPmSamplingCounterDataGetSampleInfo", &sample_info_);
  for (Sampled& sampled : devices_) found = found && sampled.metrics.find_functions(library);
  return found;
}

Result PmSampler::start() noexcept {
  while (take_abandoned() != nullptr) {
  }
  if (refused_ == kSuccess && !has_begun_) {
    refused_ = target_.begin();
    has_begun_ = refused_ == kSuccess;
  }
  for (uint32_t i = 0; i < kContexts && refused_ == kSuccess; i++) {
    if (noted(i) != nullptr) refused_ = begin(noted(i));
  }
  RingWriter* ring = api_->ring();
  for (Sampled& sampled : devices_) {
    if (sampled.sampler == nullptr || refused_ != kSuccess) continue;
    if (!sampled.is_configured) refused_ = configure(&sampled);
    if (refused_ != kSuccess) break;
    PmParams params = {sizeof(params), nullptr, sampled.sampler};
    sampled.start_ticks = ring != nullptr ? ticks_of(ring->clock()) : 0;
    refused_ = start_(&params);
    sampled.is_started = refused_ == kSuccess;
  }
  return refused_;
}

// Enables the context's device, where it is not yet.
Result PmSampler::begin(Context context) noexcept {
  uint32_t device = 0;
  if (device_of_(context, &device) != kSuccess) return kSuccess;
  Sampled* place = nullptr;
  for (Sampled& sampled : devices_) {
    if (sampled.sampler == nullptr) {
      if (place == nullptr) place = &sampled;
    } else if (sampled.device == device) {
      return kSuccess;
    }
  }
  if (place == nullptr) return kSuccess;
  PmEnableParams params = {sizeof(params), nullptr, device, nullptr};
  Result result = enable_(&params);
  if (result != kSuccess) return result;
  place->sampler = params.sampler;
  place->device = device;
  place->interval_ns = kIntervalNs;
  result = prepare(place);
  if (result != kSuccess) end(place);
  return result;
}

Result PmSampler::prepare(Sampled* sampled) noexcept {
  Result result = kSuccess;
  const char* chip = target_.chip_of(sampled->device, &result);
  if (result != kSuccess) return result;
  sampled->trigger = counts_cycles(chip) ? PmTrigger::kCycles : PmTrigger::kNanoseconds;
  result = read_availability(sampled);
  if (result != kSuccess) return result;
  MetricSet& metrics = sampled->metrics;
  result = metrics.open(ProfilerType::kPmSampling, chip, sampled->availability, kSampledMetrics,
                        kSampledMetricCount);
  if (result != kSuccess) return result;
  for (uint32_t i = 0; i < metrics.count(); i++) {
    char text[64];
    int bytes = snprintf(text, sizeof(text), "gpu/pm/gpu%u/%s", sampled->device, metrics.label(i));
    sampled->names[i] = api_->string(text, static_cast<size_t>(bytes));
  }
  return make_image(sampled);
}

// Which counters this process may use on this device.
Result PmSampler::read_availability(Sampled* sampled) noexcept {
  PmAvailabilityParams params = {sizeof(params), nullptr, sampled->device, 0, nullptr};
  Result result = availability_(&params);
  if (result != kSuccess) return result;
  if (params.bytes == 0 || params.bytes > kMostImageBytes) return kOutOfMemory;
  sampled->availability = static_cast<uint8_t*>(calloc(1, params.bytes));
  if (sampled->availability == nullptr) return kOutOfMemory;
  params.image = sampled->availability;
  return availability_(&params);
}

Result PmSampler::make_image(Sampled* sampled) noexcept {
  MetricSet& metrics = sampled->metrics;
  PmImageSizeParams size = {
      sizeof(size), nullptr, sampled->sampler, metrics.names(), metrics.count(), kSamplesAtOnce, 0};
  Result result = image_size_(&size);
  if (result != kSuccess) return result;
  if (size.bytes == 0 || size.bytes > kMostImageBytes) return kOutOfMemory;
  sampled->image = static_cast<uint8_t*>(calloc(1, size.bytes));
  if (sampled->image == nullptr) return kOutOfMemory;
  sampled->image_bytes = size.bytes;
  return empty_image(sampled);
}

Result PmSampler::empty_image(Sampled* sampled) noexcept {
  PmImageInitializeParams params = {sizeof(params), nullptr, sampled->sampler, sampled->image_bytes,
                                    sampled->image};
  return image_initialize_(&params);
}

Result PmSampler::configure(Sampled* sampled) noexcept {
  PmConfigureParams params = {};
  params.struct_bytes = pm_configure_bytes(library_->facts().version);
  params.sampler = sampled->sampler;
  params.config_bytes = sampled->metrics.config_bytes();
  params.config = sampled->metrics.config();
  params.hardware_buffer_bytes = kHardwareBufferBytes;
  params.trigger = sampled->trigger;
  params.interval = sampled->interval_ns;
  if (params.trigger == PmTrigger::kCycles) {
    params.interval = static_cast<uint64_t>(static_cast<double>(params.interval) * kCyclesPerNs);
  }
  // What came last says how long the device had room; what comes first can be placed in time.
  params.append_mode = kPmKeepOldest;
  Result result = configure_(&params);
  sampled->is_configured = result == kSuccess;
  return result;
}

void PmSampler::stop() noexcept {
  for (Sampled& sampled : devices_) {
    if (sampled.sampler == nullptr || !sampled.is_started) continue;
    sampled.is_started = false;
    PmParams params = {sizeof(params), nullptr, sampled.sampler};
    Result result = stop_(&params);
    if (result != kSuccess) {
      refused_ = result;
      continue;
    }
    read(&sampled);
  }
}

void PmSampler::read(Sampled* sampled) noexcept {
  bool is_cut = false;
  uint64_t first_ns = 0;
  for (uint32_t i = 0; i < kMostDecodes; i++) {
    PmDecodeParams params = {};
    params.struct_bytes = kPmDecodeBytes;
    params.sampler = sampled->sampler;
    params.image = sampled->image;
    params.image_bytes = sampled->image_bytes;
    Result result = decode_(&params);
    is_cut = is_cut || params.overflow != 0;
    // A full buffer of the hardware is no end: that it was cut is counted.
    if (result == kSuccess || params.overflow != 0) result = write(sampled, &first_ns);
    if (result == kSuccess) result = empty_image(sampled);
    if (result != kSuccess) {
      refused_ = result;
      return;
    }
    if (params.stop != PmDecodeStop::kImageFull) break;
  }
  if (!is_cut) return;
  counts_.cut_windows++;
  if (sampled->interval_ns >= kLongestIntervalNs) return;
  // Less often from now on, so that a whole window fits.
  sampled->interval_ns *= 2;
  sampled->is_configured = false;
}

// The times are the device's own: of them only what lies between samples is used, from the moment
// at which sampling began.
Result PmSampler::write(Sampled* sampled, uint64_t* first_ns) noexcept {
  PmImageInfoParams info = {sizeof(info), nullptr, sampled->image, sampled->image_bytes, 0, 0, 0};
  Result result = image_info_(&info);
  if (result != kSuccess) return result;
  RingWriter* ring = api_->ring();
  uint64_t now = ring != nullptr ? ticks_of(ring->clock()) : 0;
  for (size_t i = 0; i < std::min<size_t>(info.completed, kSamplesAtOnce); i++) {
    PmSampleInfoParams sample = {
        sizeof(sample), nullptr, sampled->sampler, sampled->image, sampled->image_bytes, i, 0, 0};
    double values[MetricSet::kMost];
    bool known =
        sample_info_(&sample) == kSuccess &&
        sampled->metrics.evaluate(sampled->image, sampled->image_bytes, i, values) == kSuccess;
    if (!known || ring == nullptr) {
      counts_.lost++;
      continue;
    }
    if (*first_ns == 0) *first_ns = sample.start;
    double after_ns = static_cast<double>(std::max(sample.start, *first_ns) - *first_ns);
    uint64_t ticks =
        sampled->start_ticks + static_cast<uint64_t>(after_ns * clock_->ticks_per_ns());
    bool written = true;
    for (uint32_t j = 0; j < sampled->metrics.count(); j++) {
      Counter counter = {};
      counter.value = values[j];
      written =
          ring->write_at(RecordType::kCounter, sampled->names[j], counter, std::min(ticks, now)) &&
          written;
    }
    (written ? counts_.samples : counts_.lost)++;
  }
  return kSuccess;
}

void PmSampler::end(Sampled* sampled) noexcept {
  PmParams params = {sizeof(params), nullptr, sampled->sampler};
  disable_(&params);
  sampled->metrics.close();
  free(sampled->availability);
  free(sampled->image);
  sampled->sampler = nullptr;
  sampled->is_configured = false;
  sampled->availability = sampled->image = nullptr;
}

void PmSampler::close() noexcept {
  stop();
  for (Sampled& sampled : devices_) {
    if (sampled.sampler != nullptr) end(&sampled);
  }
  if (has_begun_) target_.end();
  has_begun_ = false;
}

}  // namespace pilotlight::cupti
