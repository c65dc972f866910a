// native/probe/own_files.h: a table of open files that the job can neither see nor close.
#pragma once

namespace pilotlight {

// Leaves the process's table of open files for one that only the calling thread has, with nothing
// in it but these two (-1: none). The job's own files are not kept open by it. False: the system
// cannot, and nothing has changed.
bool take_own_files(int keep, int keep_also) noexcept;

}  // namespace pilotlight
