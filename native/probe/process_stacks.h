// native/probe/process_stacks.h: the Python stacks of another process, for when it hangs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "ring/layout.h"
#include "ring/record.h"

namespace pilotlight {

// Is told of each thread and then of its frames from the root to the leaf. A thread whose stack
// could not be read, or that runs no Python code, has none.
class StackVisitor {
 public:
  virtual ~StackVisitor() = default;
  virtual void thread(uint32_t tid, ThreadState state) = 0;
  virtual void frame(std::string_view function, std::string_view file, uint32_t line) = 0;
};

// `python` comes from the process itself and is not trusted, nor is its memory: at most 512 threads
// of kMaxStackDepth frames with texts of kMaxStringBytes come out. False: it cannot be read at all,
// `*why` says why.
bool walk_process(pid_t pid, const PythonInfo& python, StackVisitor* visitor, const char** why);

}  // namespace pilotlight
