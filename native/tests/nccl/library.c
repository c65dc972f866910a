// What a plugin sees of libnccl.so.2 besides the events that driver.cpp sends: a library that is
// loaded as frameworks load theirs, with its version and the word that says which events it sends.
//
//   SIM_NCCL_VERSION is what ncclGetVersion says.
#include <stdlib.h>

int mask;

int ncclGetVersion(int* version) {
  const char* given = getenv("SIM_NCCL_VERSION");
  *version = given != NULL ? atoi(given) : 22907;
  return 0;
}
