// native/probe/last_thread.h: lets a program end with the last of its own threads.
#pragma once

namespace pilotlight {

// On the main thread, which may end by pthread_exit, and in a forked child by returning, if another
// thread forked: then a process ends with its last thread. Ours would keep it alive for ever.
void end_with_last_thread() noexcept;

}  // namespace pilotlight
