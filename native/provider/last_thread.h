// native/provider/last_thread.h: lets a program end with the last of its own threads.
#pragma once

namespace pilotlight {

// On the main thread. A program may end it by pthread_exit and end itself with its last thread;
// ours would keep it alive for ever.
void end_with_last_thread() noexcept;

}  // namespace pilotlight
