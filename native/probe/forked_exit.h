// native/probe/forked_exit.h: how a forked child of a process with Kineto's thread leaves.
#pragma once

namespace pilotlight {

// From now on a forked child that exits skips what was registered with exit() before. Kineto's
// destructor would wait there for good, for a thread that the child does not have. Whoever
// registered later, and the process itself, exit as ever.
void skip_earlier_exit_handlers_in_children() noexcept;

}  // namespace pilotlight
