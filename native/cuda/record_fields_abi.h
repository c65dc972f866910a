// native/cuda/record_fields_abi.h: CUPTI's user-defined records (from 13.3 on), declared by hand as
// cupti_abi.h is: the numbers of the fields that we ask for, and how CUPTI tells where they lie.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::cupti {

struct FieldSelection {
  size_t struct_bytes;
  size_t count;
  int* fields;  // that of the kind first
};

// As long as that of 13.3; what 13.4 adds at its end is left out.
struct ActivityConfig {
  size_t struct_bytes;
  FieldSelection selection;
};

struct FieldPlace {
  size_t struct_bytes;
  int field;
  size_t offset, bytes, alignment;
};

struct RecordLayout {
  size_t struct_bytes;
  FieldPlace* places;
  size_t count;
  size_t record_bytes;
};

struct CompleteInfo {
  size_t struct_bytes;
  uint64_t thread;
  RecordLayout** layouts;  // by kind, null where there are none; ours until the callback returns
  size_t layout_count;
};

namespace kernel_field {
enum : int {
  kKind = 0,
  kStart = 7,
  kEnd = 8,
  kDevice = 10,
  kContext = 11,
  kStream = 12,
  kCorrelation = 22,
  kName = 24,
  kGraphNode = 31,
  kGraph = 33
};
}
// Of copies inside a device and from or to the host; the first eleven are those between devices,
// too.
namespace copy_field {
enum : int {
  kKind = 0,
  kCopyKind = 1,
  kSourceKind = 2,
  kTargetKind = 3,
  kBytes = 5,
  kStart = 6,
  kEnd = 7,
  kDevice = 8,
  kStream = 10,
  kCorrelation = 11,
  kGraphNode = 12,
  kGraph = 13
};
}
namespace peer_field {
enum : int { kCorrelation = 15, kGraphNode = 16, kGraph = 17 };
}
namespace set_field {
enum : int {
  kKind = 0,
  kBytes = 2,
  kStart = 3,
  kEnd = 4,
  kDevice = 5,
  kStream = 7,
  kCorrelation = 8,
  kGraphNode = 11,
  kGraph = 12
};
}
namespace wait_field {
enum : int {
  kKind = 0,
  kType = 1,
  kStart = 2,
  kEnd = 3,
  kCorrelation = 4,
  kContext = 5,
  kStream = 6
};
}
namespace graph_field {
enum : int {
  kKind = 0,
  kCorrelation = 1,
  kStart = 2,
  kEnd = 3,
  kDevice = 4,
  kGraph = 5,
  kStream = 7
};
}
namespace overhead_field {
enum : int { kKind = 0, kOverhead = 1, kStart = 4, kEnd = 5 };
}
namespace memory_field {
enum : int { kKind = 0, kOperation = 1, kCorrelation = 3, kBytes = 5, kTime = 6, kDevice = 8 };
}

static_assert(sizeof(FieldSelection) == 24 && sizeof(ActivityConfig) == 32);
static_assert(sizeof(FieldPlace) == 40 && sizeof(RecordLayout) == 32 && sizeof(CompleteInfo) == 32);

}  // namespace pilotlight::cupti
