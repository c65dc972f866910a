// native/cuda/pc_sampler.cpp
#include "cuda/pc_sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

namespace pilotlight::cupti {
namespace {

// CUPTI's own is 512 MB of the device, which a job that fills its memory does not have.
constexpr uint64_t kHardwareBufferBytes = 32u << 20;
constexpr uint32_t kMostReads = 256;
// What all reasons of PC sampling are called in CUPTI.
constexpr char kReasonPrefix[] = "smsp__pcsamp_warps_issue_stalled_";
// Of those that end so, each sample is counted under the name without it as well.
constexpr char kPartSuffix[] = "_not_issued";

bool ends_with(const char* text, size_t bytes, const char* suffix, size_t suffix_bytes) noexcept {
  return bytes >= suffix_bytes && memcmp(text + bytes - suffix_bytes, suffix, suffix_bytes) == 0;
}

const PcRecord* record_at(const PcData& data, size_t i, size_t bytes) noexcept {
  return reinterpret_cast<const PcRecord*>(static_cast<const uint8_t*>(data.first) + i * bytes);
}

}  // namespace

bool PcSampler::find_functions() noexcept {
  const Library& library = *library_;
  set_current_ = set_current_context();
  return library.find("cuptiPCSamplingEnable", &enable_) &&
         library.find("cuptiPCSamplingDisable", &disable_) &&
         library.find("cuptiPCSamplingStart", &start_) &&
         library.find("cuptiPCSamplingStop", &stop_) &&
         library.find("cuptiPCSamplingSetConfigurationAttribute", &configure_) &&
         library.find("cuptiPCSamplingGetNumStallReasons", &count_reasons_) &&
         library.find("cuptiPCSamplingGetStallReasons", &get_reasons_) &&
         library.find("cuptiPCSamplingGetData", &get_data_) &&
         library.find("cuptiGetDeviceId", &device_of_);
}

void PcSampler::forget(Context context) noexcept {
  for (Sampled& sampled : contexts_) {
    if (sampled.context == context) end(&sampled);
  }
  DeviceSampler::forget(context);
}

Result PcSampler::start() noexcept {
  counts_.contexts_out = 0;
  while (Context gone = take_abandoned()) {
    for (Sampled& sampled : contexts_) {
      // Its buffer is leaked: CUPTI may still write to it.
      if (sampled.context == gone) sampled = {};
    }
  }
  for (uint32_t i = 0; i < kContexts && refused_ == kSuccess; i++) {
    if (noted(i) != nullptr) refused_ = begin(noted(i));
  }
  RingWriter* ring = api_->ring();
  window_ticks_ = ring != nullptr ? ticks_of(ring->clock()) : 0;
  for (Sampled& sampled : contexts_) {
    if (sampled.context == nullptr || refused_ != kSuccess) continue;
    Current current(set_current_, sampled.context);
    PcContextParams params = {sizeof(params), nullptr, sampled.context};
    Result result = start_(&params);
    sampled.is_started = result == kSuccess;
    if (result != kSuccess) refused_ = result;
  }
  return refused_;
}

// Enables what is not enabled yet.
Result PcSampler::begin(Context context) noexcept {
  uint32_t device = 0;
  if (device_of_(context, &device) != kSuccess) {
    counts_.contexts_out++;
    return kSuccess;
  }
  Sampled* free_place = nullptr;
  for (Sampled& sampled : contexts_) {
    if (sampled.context == context) return kSuccess;
    if (sampled.context == nullptr) {
      if (free_place == nullptr) free_place = &sampled;
    } else if (sampled.device == device) {
      counts_.contexts_out++;
      return kSuccess;
    }
  }
  if (free_place == nullptr) {
    counts_.contexts_out++;
    return kSuccess;
  }
  if (sums_ == nullptr) sums_ = static_cast<Sum*>(calloc(kSums, sizeof(Sum)));
  if (sums_ == nullptr) return kOutOfMemory;
  Current current(set_current_, context);
  PcContextParams params = {sizeof(params), nullptr, context};
  Result result = enable_(&params);
  if (result != kSuccess) return result;
  *free_place = {};
  free_place->context = context;
  free_place->device = device;
  char text[32];
  int bytes = snprintf(text, sizeof(text), "GPU %u PC samples", device);
  uint32_t name = api_->string(text, static_cast<size_t>(bytes));
  free_place->track = api_->track(name, TrackKind::kEngine, static_cast<uint16_t>(device), 0);
  result = configure(free_place);
  if (result != kSuccess) end(free_place);
  return result;
}

bool PcSampler::name_reasons(Sampled* sampled) noexcept {
  size_t count = 0;
  PcCountReasonsParams ask = {sizeof(ask), nullptr, sampled->context, &count};
  if (count_reasons_(&ask) != kSuccess || count == 0 || count > 4096) return false;
  auto* texts = static_cast<char*>(calloc(count, kStallReasonNameBytes));
  auto** names = static_cast<char**>(calloc(count, sizeof(char*)));
  auto* indices = static_cast<uint32_t*>(calloc(count, sizeof(uint32_t)));
  bool known = texts != nullptr && names != nullptr && indices != nullptr;
  if (known) {
    for (size_t i = 0; i < count; i++) names[i] = texts + i * kStallReasonNameBytes;
    PcGetReasonsParams get = {sizeof(get), nullptr, sampled->context, count, indices, names};
    known = get_reasons_(&get) == kSuccess;
  }
  for (size_t i = 0; known && i < count && sampled->reasons < kMaxReasons; i++) {
    size_t bytes = strnlen(names[i], kStallReasonNameBytes);
    const char* text = names[i];
    if (ends_with(text, bytes, kPartSuffix, sizeof(kPartSuffix) - 1)) continue;
    constexpr size_t kPrefix = sizeof(kReasonPrefix) - 1;
    if (bytes > kPrefix && memcmp(text, kReasonPrefix, kPrefix) == 0) {
      text += kPrefix;
      bytes -= kPrefix;
    }
    sampled->names[sampled->reasons] = api_->string(text, bytes);
    sampled->indices[sampled->reasons++] = indices[i];
  }
  free(texts);
  free(static_cast<void*>(names));
  free(indices);
  return known;
}

bool PcSampler::allocate(Buffer* buffer, uint32_t reasons) noexcept {
  uint32_t version = library_->facts().version;
  size_t record_bytes = pc_record_bytes(version);
  size_t stalls_bytes = reasons * sizeof(StallSamples);
  buffer->memory = static_cast<uint8_t*>(calloc(kRecordsAtOnce, record_bytes + stalls_bytes));
  if (buffer->memory == nullptr) return false;
  buffer->data = {};
  buffer->data.struct_bytes = pc_data_bytes(version);
  buffer->data.most_records = kRecordsAtOnce;
  buffer->data.first = buffer->memory;
  uint8_t* stalls = buffer->memory + kRecordsAtOnce * record_bytes;
  for (uint32_t i = 0; i < kRecordsAtOnce; i++) {
    auto* record = reinterpret_cast<PcRecord*>(buffer->memory + i * record_bytes);
    record->struct_bytes = record_bytes;
    record->stalls = reinterpret_cast<StallSamples*>(stalls + i * stalls_bytes);
  }
  return true;
}

Result PcSampler::configure(Sampled* sampled) noexcept {
  if (!name_reasons(sampled)) return kNotSupported;
  if (!allocate(&sampled->own, sampled->reasons)) return kOutOfMemory;
  // For all contexts: as wide as the widest of them may need.
  if (out_.memory == nullptr && !allocate(&out_, kMaxReasons)) return kOutOfMemory;
  // The period stays CUPTI's own: it knows how many multiprocessors there are.
  PcSetting settings[] = {
      {kPcStallReasons, kSuccess, {sampled->reasons, reinterpret_cast<uint64_t>(sampled->indices)}},
      {kPcCollectionMode, kSuccess, {kPcContinuous}},
      {kPcStartStopControl, kSuccess, {1}},
      {kPcHardwareBufferBytes, kSuccess, {kHardwareBufferBytes}},
      {kPcDataBuffer, kSuccess, {reinterpret_cast<uint64_t>(&sampled->own.data)}},
  };
  PcConfigureParams params = {sizeof(params), nullptr, sampled->context,
                              sizeof(settings) / sizeof(settings[0]), settings};
  return configure_(&params);
}

void PcSampler::pause(Sampled* sampled) noexcept {
  if (!sampled->is_started) return;
  sampled->is_started = false;
  PcContextParams params = {sizeof(params), nullptr, sampled->context};
  stop_(&params);
  read(sampled);
}

void PcSampler::stop() noexcept {
  for (Sampled& sampled : contexts_) {
    if (sampled.context == nullptr) continue;
    Current current(set_current_, sampled.context);
    pause(&sampled);
    write(&sampled);
  }
}

// Also inside CUPTI's callback before a context ends, where no CUDA call may be made.
void PcSampler::end(Sampled* sampled) noexcept {
  pause(sampled);
  PcContextParams params = {sizeof(params), nullptr, sampled->context};
  disable_(&params);
  // What CUPTI still had it puts there.
  add(sampled, sampled->own.data);
  write(sampled);
  free(sampled->own.memory);
  *sampled = {};
}

void PcSampler::close() noexcept {
  for (Sampled& sampled : contexts_) {
    if (sampled.context == nullptr) continue;
    Current current(set_current_, sampled.context);
    end(&sampled);
  }
  free(out_.memory);
  out_ = {};
  free(sums_);
  sums_ = nullptr;
}

void PcSampler::read(Sampled* sampled) noexcept {
  for (uint32_t i = 0; i < kMostReads; i++) {
    PcData* data = &out_.data;
    data->records = data->left = 0;
    data->total_samples = data->dropped_samples = data->other_samples = 0;
    data->is_hardware_full = 0;
    PcGetDataParams params = {sizeof(params), nullptr, sampled->context, data};
    Result result = get_data_(&params);
    // A full buffer of the hardware is no end: what was dropped is counted.
    if (result != kSuccess && result != kOutOfMemory) {
      refused_ = result;
      return;
    }
    add(sampled, *data);
    if (result != kSuccess || data->left == 0) return;
  }
}

void PcSampler::add(Sampled* sampled, const PcData& data) noexcept {
  counts_.dropped += data.dropped_samples;
  counts_.other += data.other_samples;
  size_t record_bytes = pc_record_bytes(library_->facts().version);
  const char* last = nullptr;
  uint32_t function = 0;
  for (size_t i = 0; i < std::min<size_t>(data.records, kRecordsAtOnce); i++) {
    const PcRecord& record = *record_at(data, i, record_bytes);
    // The names are shared with other records of CUPTI's, so they are never freed here.
    if (record.function != last || function == 0) {
      last = record.function;
      const char* text = last != nullptr ? last : "(unknown)";
      function = api_->string(text, strnlen(text, kMaxStringBytes));
    }
    size_t reasons = std::min<size_t>(record.reasons, sampled->reasons);
    for (size_t j = 0; j < reasons; j++) {
      if (record.stalls[j].samples == 0) continue;
      add_one(sampled, record.cubin_crc, function, record.offset, record.stalls[j]);
    }
  }
}

void PcSampler::add_one(Sampled* sampled, uint64_t crc, uint32_t function, uint64_t offset,
                        const StallSamples& stall) noexcept {
  uint32_t reason = 0;
  for (uint32_t i = 0; i < sampled->reasons; i++) {
    if (sampled->indices[i] == stall.reason) reason = sampled->names[i];
  }
  uint64_t hash = (crc ^ uint64_t{function} << 32 ^ reason) * 0x9e3779b97f4a7c15ull;
  uint32_t slot = static_cast<uint32_t>(hash >> 40) % kSums;
  for (uint32_t tries = 0;; tries++, slot = (slot + 1) % kSums) {
    Sum& sum = sums_[slot];
    bool same = sum.crc == crc && sum.function == function && sum.reason == reason;
    if (sum.samples != 0 && !same) {
      // Full: what there is goes out, and the rest begins anew.
      if (tries == kSums) write(sampled);
      continue;
    }
    if (sum.samples == 0) sum = {crc, function, reason, 0, 0, 0};
    sum.samples += stall.samples;
    if (stall.samples > sum.hottest_samples) {
      sum.hottest_samples = stall.samples;
      sum.hottest_offset = offset;
    }
    return;
  }
}

void PcSampler::write(Sampled* sampled) noexcept {
  RingWriter* ring = api_->ring();
  for (uint32_t i = 0; sums_ != nullptr && i < kSums; i++) {
    const Sum sum = sums_[i];
    sums_[i] = {};
    if (sum.samples == 0) continue;
    pilotlight::Activity activity = {};
    activity.track = sampled->track;
    activity.kind = static_cast<uint32_t>(ActivityKind::kPcSamples);
    activity.correlation = sum.crc;
    activity.bytes = static_cast<int64_t>(sum.samples);
    activity.range = sum.reason;
    activity.detail = sum.hottest_offset;
    bool written = ring != nullptr &&
                   ring->write_at(RecordType::kActivity, sum.function, activity,
                                  window_ticks_ != 0 ? window_ticks_ : ticks_of(ring->clock()));
    (written ? counts_.samples : counts_.lost) += sum.samples;
  }
}

}  // namespace pilotlight::cupti
