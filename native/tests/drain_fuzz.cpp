// native/tests/drain_fuzz.cpp: the reader on any segment; between reads it changes at known places.
#include "drain_exercise.h"
#include "drain_image.h"
#include "drain_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pilotlight;
  Image image(data, size);
  Exercise exercise;
  if (!exercise.open(image.fd())) return 0;
  for (int round = 0; round < 4; round++) {
    exercise.read();
    exercise.ask();
    if (round % 2 == 1) {
      exercise.take();
      exercise.take_windows(0);
    }
    if (!image.patch(4)) break;
  }
  exercise.hand_over(image.fd(), size > 16 ? data[size - 1] * 0x0101010101010101ull : 0);
  exercise.finish(1);
  return 0;
}
