// native/cuda/cupti_places.h: where a libcupti may lie, the likeliest place first.
//
// PyTorch loads one before CUDA is initialised, and that one is used. Others do not: JAX looks for
// it when it is asked to trace, and a program may have the CUDA runtime linked in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pilotlight::cupti {

// Libraries that are in this process.
struct LoadedCuda {
  char cupti[512];  // the first: it was there before any other tool's
  uint32_t cuptis;
  char cudart[512];  // the CUDA runtime
};
LoadedCuda loaded_cuda() noexcept;

class CuptiPlaces {
 public:
  static constexpr uint32_t kMost = 24;

  // `cudart`: the path of the CUDA runtime, or empty; `packages`: the folder of Python's packages.
  void list(std::string_view cudart, std::string_view packages) noexcept;
  void list_one(const char* path) noexcept;
  void clear() noexcept { count_ = at_ = 0; }
  // nullptr: there is no further one.
  const char* next() noexcept { return at_ < count_ ? paths_[at_++] : nullptr; }
  bool has_next() const noexcept { return at_ < count_; }

 private:
  void add(std::string_view folder, const char* rest) noexcept;

  char paths_[kMost][600];
  uint32_t count_ = 0;
  uint32_t at_ = 0;
};

}  // namespace pilotlight::cupti
