// native/opencl/commands.h: commands that the device has not finished.
#pragma once

#include <cstdint>

#include "opencl/opencl_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::opencl {

// A function that puts one into a queue.
struct Command {
  Call call;
  const char* name;  // of the function
  ActivityKind kind;
  int bytes_at;  // which argument after the queue says how much; -1: none
};

// Finds the probe, once a program uses OpenCL; nullptr: there is none.
const ProviderApi* attach_once() noexcept;
// The same, or nullptr while nothing is to be recorded.
const ProviderApi* api_now() noexcept;

// What is to be remembered of a command that was just put into a queue.
void watch(const ProviderApi& api, const Command& command, Queue* queue, Event* event,
           Kernel* kernel, int64_t bytes, int64_t before_ns, uint64_t start_ticks,
           bool is_theirs) noexcept;

}  // namespace pilotlight::opencl
