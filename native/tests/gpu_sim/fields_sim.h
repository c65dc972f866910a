// native/tests/gpu_sim/fields_sim.h: user-defined records of the simulated CUPTI (13.3 on).
#pragma once

#include <vector>

#include "cuda/cupti_abi.h"
#include "cuda/record_fields_abi.h"

namespace gpu_sim {

// Where the fields of a kind lie that a subscriber asked for.
struct Layout {
  // In a whole record of this simulator.
  struct Source {
    size_t offset, bytes;
  };
  std::vector<pilotlight::cupti::FieldPlace> places;
  std::vector<Source> sources;  // of each place
  size_t record_bytes = 0;

  std::vector<int> fields() const;
};

pilotlight::cupti::Result lay_out(uint32_t kind, const pilotlight::cupti::ActivityConfig* config,
                                  Layout* layout);
// From a whole record.
void pack(const Layout& layout, const uint8_t* whole, uint8_t* place);

// What comes with a buffer. Gone, and written over, with the callback.
class LayoutsTold {
 public:
  explicit LayoutsTold(const Layout* layouts, uint32_t kinds);
  ~LayoutsTold();
  void* info() { return &info_; }

 private:
  std::vector<Layout> copies_;
  std::vector<pilotlight::cupti::RecordLayout> layouts_;
  std::vector<pilotlight::cupti::RecordLayout*> by_kind_;
  pilotlight::cupti::CompleteInfo info_;
};

}  // namespace gpu_sim
