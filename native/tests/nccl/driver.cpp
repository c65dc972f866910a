// A stand-in for NCCL as a profiler plugin sees it: loads the plugin as NCCL does, sends events in
// the order and from the threads that NCCL does, and ends the process if the plugin answers
// anything but success, leaves a handle unset, or asks for events that its version does not have.
//
//   driver LIBRARY PLUGIN VERSION SCENE
//   SCENE: train, asked, captured, broadcast, drift, proxy, strange, silent, gather, left, two,
//   many LIBRARY is library.c; SIM_NCCL_RANK the rank of this process.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "nccl/nccl_abi.h"

using namespace pilotlight::nccl;

namespace {

constexpr uint64_t kHash = 0x1234abcd;
constexpr int kChannels = 2;
constexpr int64_t kGpuAhead = 777000000000;  // the GPU's clock is not the host's

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "driver: %s\n", what);
  abort();
}

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

template <int version>
struct Abi;
template <>
struct Abi<1> {
  using Init = InitV1;
  using Described = DescriptorV1;
};
template <>
struct Abi<2> {
  using Init = InitV1;
  using Described = DescriptorV2;
};
template <>
struct Abi<3> {
  using Init = InitV1;
  using Described = DescriptorV3;
};
template <>
struct Abi<4> {
  using Init = InitV4;
  using Described = DescriptorV4;
};
template <>
struct Abi<5> {
  using Init = InitV5;
  using Described = DescriptorV5;
};
template <>
struct Abi<6> : Abi<5> {};

void* found(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) fail(dlerror());
  return symbol;
}

template <int version>
class Driver {
  using Described = typename Abi<version>::Described;
  using Table = Plugin<typename Abi<version>::Init, Described>;

 public:
  Driver(void* library, void* plugin) : mask_(*static_cast<int*>(found(library, "mask"))) {
    char name[32];
    snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
    plugin_ = static_cast<const Table*>(found(plugin, name));
    if (plugin_->name == nullptr) fail("no name");
    const char* given = getenv("SIM_NCCL_RANK");
    rank_ = given != nullptr ? atoi(given) : 0;
  }

  void* init() {
    void* context = &mask_;
    int answer;
    if constexpr (version >= 5) {
      answer = plugin_->init(&context, kHash, &mask_, "world", 1, 2, rank_, nullptr);
    } else if constexpr (version == 4) {
      answer = plugin_->init(&context, &mask_, "world", kHash, 1, 2, rank_, nullptr);
    } else {
      answer = plugin_->init(&context, &mask_);
    }
    if (answer != kSuccess) fail("init");
    if (context == &mask_) fail("init left the context unset");
    constexpr int known[] = {0, 0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff};
    if ((mask_ & ~known[version]) != 0) fail("a mask with events that this version has not");
    return context;
  }

  void finalize(void* context) {
    if (plugin_->finalize(context) != kSuccess) fail("finalize");
  }

  void* start(void* context, Described descriptor) {
    void* event = &mask_;
    if (plugin_->start(context, &event, &descriptor) != kSuccess) fail("startEvent");
    if (event == &mask_) fail("startEvent left the handle unset");
    return event;
  }
  // NCCL does not call for events without a handle.
  void stop(void* event) {
    if (event != nullptr && plugin_->stop(event) != kSuccess) fail("stopEvent");
  }
  void state(void* event, int number, StateArguments arguments = {}) {
    if (event != nullptr && plugin_->state(event, number, &arguments) != kSuccess) fail("state");
  }

  Described coll(uint64_t sequence, void* parent, size_t count = 1 << 20) {
    Described made = {};
    made.type = kColl;
    made.parent = parent;
    made.rank = rank_;
    made.coll.sequence = sequence;
    made.coll.count = count;
    made.coll.channels = kChannels;
    if constexpr (version == 1) {
      made.coll.func = 4;
      made.coll.datatype = 7;
    } else {
      made.coll.func = "AllReduce";
      made.coll.datatype = "ncclFloat32";
    }
    if constexpr (version <= 3) {
      made.coll.name = "world";
      made.coll.comm_hash = kHash;
    }
    return made;
  }

  Described p2p(bool is_send, int peer) {
    Described made = {};
    made.type = kP2p;
    made.rank = rank_;
    made.p2p.count = 1000;
    made.p2p.peer = peer;
    if constexpr (version == 1) {
      made.p2p.func = is_send ? 6 : 7;
      made.p2p.datatype = 9;
    } else {
      made.p2p.func = is_send ? "Send" : "Recv";
      made.p2p.datatype = "ncclBfloat16";
    }
    if constexpr (version <= 3) {
      made.p2p.name = "world";
      made.p2p.comm_hash = kHash;
    }
    return made;
  }

  // Before v5 there are none.
  Described call(const char* func, bool is_captured) {
    Described made = {};
    if constexpr (version >= 5) {
      made = plain(kCollApi, nullptr);
      made.coll_api.func = func;
      made.coll_api.count = 1 << 20;
      made.coll_api.datatype = "ncclFloat32";
      made.coll_api.is_captured = is_captured;
    }
    return made;
  }

  Described plain(uint64_t type, void* parent) {
    Described made = {};
    made.type = static_cast<decltype(made.type)>(type);
    made.parent = parent;
    made.rank = rank_;
    return made;
  }

  // The proxy thread: sees a kernel of `lasted_ns` that ended a while ago.
  void kernel(void* context, void* task, int64_t lasted_ns) {
    if ((mask_ & kKernelCh) == 0) return;
    int64_t began = now_ns() + gpu_ahead_;
    void* channels[kChannels];
    for (int i = 0; i < kChannels; i++) {
      Described made = plain(kKernelCh, task);
      made.kernel_ch.channel = static_cast<uint8_t>(i);
      made.kernel_ch.gpu_ns = static_cast<uint64_t>(began);
      channels[i] = start(context, made);
    }
    usleep(static_cast<useconds_t>(lasted_ns / 1000 + (version >= 4 ? 4000 : 0)));
    for (void* channel : channels) {
      StateArguments end = {};
      end.kernel_ch.gpu_ns = static_cast<uint64_t>(began + lasted_ns);
      if (version >= 4) state(channel, kKernelChStop, end);
      stop(channel);
    }
  }

  // One AllReduce as a program makes it.
  void all_reduce(void* context, uint64_t sequence, int64_t lasted_ns) {
    void* api = nullptr;
    if ((mask_ & kCollApi) != 0) api = start(context, call("AllReduce", false));
    stop(api);
    void* group = start(context, plain(kGroup, nullptr));
    void* task = start(context, coll(sequence, version >= 5 ? api : group));
    stop(task);
    stop(group);
    stop(api);  // NCCL forgets to forget it
    std::thread([=] { kernel(context, task, lasted_ns); }).join();
  }

  void train() {
    void* context = init();
    printf("mask %#x\n", static_cast<unsigned>(mask_));
    for (uint64_t i = 0; i < 3; i++) all_reduce(context, i, 2000000);
    for (int i = 0; i < 2; i++) {
      stop(start(context, p2p(true, 1 - rank_)));
      stop(start(context, p2p(false, 1 - rank_)));
    }
    finalize(context);
  }

  // A program that works until somebody asks for kernel times.
  void asked() {
    void* context = init();
    uint64_t i = 0;
    for (; i < 1000 && (mask_ & kKernelCh) == 0 && (i < 400 || (mask_ & kProxyOp) == 0); i++) {
      all_reduce(context, i, 0);
      usleep(20000);
    }
    printf("mask %#x\n", static_cast<unsigned>(mask_));
    finalize(context);
  }

  // A program that captures its collectives. As in NCCL, the mask counts as it was when a call
  // began; with kernel events a call of the host gets into the graph.
  void captured() {
    void* context = init();
    int host_calls = 0;
    for (uint64_t i = 0; i < 20; i++) {
      if ((mask_ & kKernelCh) != 0) host_calls++;
      stop(start(context, call("AllReduce", true)));
    }
    printf("%d host calls\n", host_calls);
    finalize(context);
  }

  // NCCL from 2.29 to 2.30 tells of the call alone, others also of what it enqueues.
  void broadcast() {
    void* context = init();
    for (int i = 0; i < 3; i++) stop(start(context, call("Broadcast", false)));
    void* told = start(context, call("Broadcast", false));
    stop(told);
    Described task = coll(7, told, 4 << 20);
    if constexpr (version > 1) {
      task.coll.func = "Broadcast";
      task.coll.datatype = "ncclInt8";
    }
    stop(start(context, task));
    finalize(context);
  }

  // The clock of the GPU falls back, as by the drift of hours.
  void drift() {
    void* context = init();
    all_reduce(context, 0, 2000000);
    usleep(4500000);
    gpu_ahead_ -= 100000000;
    all_reduce(context, 1, 2000000);
    finalize(context);
  }

  // Proxy events, as asked for on demand: the operation waits 3 ms for its peer.
  void proxy() {
    void* context = init();
    void* task = start(context, coll(0, nullptr));
    Described made = plain(kProxyOp, task);
    made.proxy_op.pid = getpid();
    std::thread([&] {
      void* operation = start(context, made);
      void* step = start(context, plain(kProxyStep, operation));
      state(step, kStepRecvWait);
      usleep(3000);
      state(step, kStepRecvGpuWait);
      usleep(1000);
      stop(step);
      stop(task);
      stop(operation);
    }).join();
    kernel(context, task, 30000000);
    finalize(context);
  }

  // Collectives whose kernels never show themselves: hung, or NCCL sends no such events.
  void silent() {
    void* context = init();
    stop(start(context, coll(0, nullptr)));
    finalize(context);
  }

  // What NCCL makes of an AllGather: the program gathers bfloat16, NCCL bytes.
  void gather() {
    void* context = init();
    void* call = nullptr;
    if constexpr (version >= 5) {
      Described api = plain(kCollApi, nullptr);
      api.coll_api.func = "AllGather";
      api.coll_api.count = 1000;
      api.coll_api.datatype = "ncclBfloat16";
      call = start(context, api);
    }
    Described task = coll(0, call, 2000);
    if constexpr (version > 1) {
      task.coll.func = "AllGather";
      task.coll.datatype = "ncclInt8";
    }
    stop(start(context, task));
    stop(call);
    finalize(context);
  }

  // As programs mostly end: their communicator does not. One operation is enqueued, its kernel has
  // not shown itself; the other one is not even that.
  void left() {
    void* context = init();
    stop(start(context, coll(0, nullptr)));
    start(context, coll(1, nullptr));
  }

  // One communicator ends while another one works.
  void two() {
    void *first = init(), *second = init();
    void* task = start(second, coll(0, nullptr));
    finalize(first);
    stop(task);
    finalize(second);
  }

  void strange() {
    void* context = init();
    void* unset = &mask_;
    plugin_->start(context, &unset, nullptr);
    if (unset != nullptr) fail("a handle for nothing");
    plugin_->start(context, nullptr, nullptr);
    plugin_->stop(nullptr);
    plugin_->stop(reinterpret_cast<void*>(0xdeadbeef));
    plugin_->state(reinterpret_cast<void*>(0x7), kKernelChStop, nullptr);
    start(nullptr, coll(0, nullptr));
    start(context, plain(version >= 5 ? uint64_t{1} << 40 : 0x80, nullptr));
    // A kernel, and a proxy of another process, whose parent is none or has ended.
    void* ended = start(context, coll(1, nullptr));
    stop(ended);
    stop(ended);
    kernel(context, reinterpret_cast<void*>(0x123456789), 1000);
    Described foreign = plain(kProxyOp, reinterpret_cast<void*>(0x5));
    foreign.proxy_op.pid = getpid() + 1;
    if (start(context, foreign) != nullptr) fail("took another process's proxy operation");
    Described unnamed = coll(2, nullptr);
    if constexpr (version > 1) {
      unnamed.coll.func = nullptr;
      unnamed.coll.datatype = nullptr;
    }
    stop(start(context, unnamed));
    // More communicators and more open operations than there is room for.
    std::vector<void*> others;
    for (int i = 0; i < 300; i++) others.push_back(init());
    std::vector<void*> open;
    for (int i = 0; i < 9000; i++) open.push_back(start(context, coll(100, nullptr)));
    for (void* one : open) stop(one);
    for (void* one : others) finalize(one);
    finalize(context);
    finalize(nullptr);
  }

  void many(long count) {
    void* context = init();
    int64_t began = now_ns();
    for (long i = 0; i < count; i++) stop(start(context, coll(static_cast<uint64_t>(i), nullptr)));
    printf("%.1f ns a collective\n",
           static_cast<double>(now_ns() - began) / static_cast<double>(count));
    finalize(context);
  }

 private:
  const Table* plugin_;
  int& mask_;
  int rank_;
  int64_t gpu_ahead_ = kGpuAhead;
};

template <int version>
void play(void* library, void* plugin, const char* scene) {
  Driver<version> driver(library, plugin);
  if (strcmp(scene, "train") == 0) return driver.train();
  if (strcmp(scene, "asked") == 0) return driver.asked();
  if (strcmp(scene, "captured") == 0) return driver.captured();
  if (strcmp(scene, "broadcast") == 0) return driver.broadcast();
  if (strcmp(scene, "drift") == 0) return driver.drift();
  if (strcmp(scene, "proxy") == 0) return driver.proxy();
  if (strcmp(scene, "silent") == 0) return driver.silent();
  if (strcmp(scene, "gather") == 0) return driver.gather();
  if (strcmp(scene, "left") == 0) return driver.left();
  if (strcmp(scene, "two") == 0) return driver.two();
  if (strcmp(scene, "strange") == 0) return driver.strange();
  if (strcmp(scene, "many") == 0) return driver.many(100000);
  fail("no such scene");
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) fail("driver LIBRARY PLUGIN VERSION SCENE");
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  void* plugin = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || plugin == nullptr) fail(dlerror());
  switch (atoi(words[3])) {
    case 1:
      play<1>(library, plugin, words[4]);
      break;
    case 2:
      play<2>(library, plugin, words[4]);
      break;
    case 3:
      play<3>(library, plugin, words[4]);
      break;
    case 4:
      play<4>(library, plugin, words[4]);
      break;
    case 5:
      play<5>(library, plugin, words[4]);
      break;
    case 6:
      play<6>(library, plugin, words[4]);
      break;
    default:
      fail("versions are 1 to 6");
  }
  return 0;
}
