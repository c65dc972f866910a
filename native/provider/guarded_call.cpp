// native/provider/guarded_call.cpp: libpilotlight_guard.so, for calls of C++ functions of others
// from Python. What they raise would go through ctypes, which knows no exceptions, and end the job.
//
// A library of its own, because it must see exceptions as those who throw them do: by the libstdc++
// and libgcc of the process, which our other libraries keep away from.
#include <cxxabi.h>

// False: the function raised something.
extern "C" __attribute__((visibility("default"))) bool pilotlight_guarded_call(void (*function)()) {
  try {
    function();
    return true;
  } catch (abi::__forced_unwind&) {
    throw;  // the thread ends here
  } catch (...) {
    return false;
  }
}
