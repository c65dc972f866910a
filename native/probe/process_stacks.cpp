// native/probe/process_stacks.cpp
#include "probe/process_stacks.h"

#include <errno.h>

#include <memory>
#include <string>
#include <vector>

#include "probe/code_object.h"
#include "probe/stack_snapshot.h"
#include "probe/stack_walk.h"
#include "probe/thread_state.h"

namespace pilotlight {
namespace {

constexpr uint32_t kMaxThreads = 512;
constexpr int kMaxRounds = 3;

struct NamedFrame {
  std::string function;
  std::string file;
  uint32_t line = 0;
  bool is_shim = false;
};

class ProcessWalk {
 public:
  bool open(pid_t pid, const PythonInfo& python) {
    pid_ = pid;
    return walker_.open(ProcessMemory(pid), python) && reader_.open(walker_.memory(), python);
  }

  uint32_t list() {
    count_ = walker_.threads(threads_, kMaxThreads).count;
    return count_;
  }

  void visit(StackVisitor* visitor) {
    for (uint32_t i = 0; i < count_; i++) {
      const ThreadRef& thread = threads_[i];
      GilAddresses gil = {thread.gil + walker_.at(kGilCond), thread.gil + walker_.at(kGilMutex)};
      ThreadStateFile file;
      ThreadState state = file.open(pid_, thread.tid) ? file.read(gil) : ThreadState::kUnknown;
      file.close();
      visitor->thread(thread.tid, state);
      uint32_t frames = read(thread);
      for (uint32_t j = frames; j-- > 0;) {
        const NamedFrame& frame = frames_[j];
        if (!frame.is_shim) visitor->frame(frame.function, frame.file, frame.line);
      }
    }
  }

 private:
  // Fills frames_ from the leaf to the root. What was read of code objects counts only for frames
  // that are there both before and after.
  uint32_t read(const ThreadRef& thread) {
    WalkHint hint = {};
    for (int round = 0; round < kMaxRounds; round++) {
      if (!snapshot_.take(&walker_, thread, &hint, &before_)) continue;
      if (!name_frames(before_)) continue;
      if (!snapshot_.take(&walker_, thread, &hint, &after_)) continue;
      bool moved = false;
      uint32_t common = common_nodes(before_, after_, &moved);
      // The names of a frame that went on are still its own, its line then is that of before.
      if (moved) common++;
      if (common == 0) continue;
      frames_.erase(frames_.begin(), frames_.begin() + (before_.nodes - common));
      return common;
    }
    return 0;
  }

  bool name_frames(const Chain& chain) {
    frames_.assign(chain.nodes, NamedFrame{});
    for (uint32_t i = 0; i < chain.nodes; i++) {
      frames_[i].is_shim = chain.node[i].code == 0;
      if (!frames_[i].is_shim && !name_frame(chain.node[i], &frames_[i])) return false;
    }
    return true;
  }

  bool name_frame(const Node& node, NamedFrame* frame) {
    CodeIdentity code;
    uint32_t offset = 0;
    std::string_view text;
    reader_.identify(&node.code, 1, &code);
    if (code.hash == 0 || !reader_.offset(code, node.instruction, &offset)) return false;
    if (!reader_.function(code, &text)) return false;
    frame->function = text;
    if (!reader_.file(code, &text)) return false;
    frame->file = text;
    frame->is_shim = code.is_shim;
    return reader_.line(code, offset, &frame->line);
  }

  pid_t pid_ = 0;
  StackWalker walker_;
  CodeReader reader_;
  StackSnapshot snapshot_;
  uint32_t count_ = 0;
  ThreadRef threads_[kMaxThreads];
  Chain before_;
  Chain after_;
  std::vector<NamedFrame> frames_;
};

}  // namespace

bool walk_process(pid_t pid, const PythonInfo& python, StackVisitor* visitor, const char** why) {
  auto walk = std::make_unique<ProcessWalk>();
  if (!walk->open(pid, python)) {
    *why = "it runs no Python whose stacks can be read";
    return false;
  }
  errno = 0;
  if (walk->list() == 0) {
    *why = errno == EPERM   ? "reading its memory is not permitted"
           : errno == ESRCH ? "there is no such process"
                            : "its memory holds no list of Python threads";
    return false;
  }
  walk->visit(visitor);
  return true;
}

}  // namespace pilotlight
