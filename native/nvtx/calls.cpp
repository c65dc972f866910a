// native/nvtx/calls.cpp
#include "nvtx/calls.h"

#include <atomic>

#include "nvtx/ranges.h"

namespace pilotlight::nvtx {
namespace {

constexpr char kLost[] = "nvtx/lost";
const ProviderApi* probe = nullptr;
uint32_t first_run = 0;  // of the process that began to use it, not of its forked children
Function core_behind[kCoreCalls];
Function core2_behind[kCore2Calls];
Function sync_behind[kSyncCalls];

template <typename F>
F* behind(CoreCall call) noexcept {
  return reinterpret_cast<F*>(core_behind[call]);
}
template <typename F>
F* behind(Core2Call call) noexcept {
  return reinterpret_cast<F*>(core2_behind[call]);
}

template <typename F>
F* behind(SyncCall call) noexcept {
  return reinterpret_cast<F*>(sync_behind[call]);
}

DomainHandle* chained(Handle* domain) noexcept {
  return domain != nullptr ? static_cast<DomainHandle*>(domain->chained) : nullptr;
}

// The attributes as the tool behind us knows them.
template <typename Given>
Given chained(const Given& attributes) noexcept {
  Given copy = attributes;
  if (copy.message_type == kRegistered && copy.message.registered != nullptr) {
    void* string = as_handle(copy.message.registered)->chained;
    copy.message.registered = static_cast<StringHandle*>(string);
  }
  return copy;
}

// Programs may have been compiled with an older, shorter struct.
template <typename Given>
bool is_whole(const Given* attributes) noexcept {
  return attributes != nullptr && attributes->size >= sizeof(Given);
}

template <typename Char>
Text text_of(const Char* given) noexcept {
  Text text;
  text.add(given);
  return text;
}

bool has_number(const Attributes& attributes, double* number) noexcept {
  switch (attributes.payload_type) {
    case kUint64:
      *number = static_cast<double>(attributes.payload.u64);
      return true;
    case kInt64:
      *number = static_cast<double>(attributes.payload.i64);
      return true;
    case kDouble:
      *number = attributes.payload.f64;
      return true;
    case kUint32:
      *number = attributes.payload.u32;
      return true;
    case kInt32:
      *number = attributes.payload.i32;
      return true;
    case kFloat:
      *number = static_cast<double>(attributes.payload.f32);
      return true;
    default:
      return false;
  }
}

// A payload is a counter with the name of its range.
void write_payload(uint32_t name, const Attributes& attributes) noexcept {
  double number = 0;
  if (!has_number(attributes, &number) || name == 0) return;
  if (!probe->collecting->load(std::memory_order_relaxed)) return;
  RingWriter* ring = probe->ring();
  if (ring == nullptr) return;
  Counter record = {};
  record.value = number;
  ring->write(RecordType::kCounter, name, record);
}

void write_mark(uint32_t name, int64_t value) noexcept {
  RingWriter* ring = probe->ring();
  if (ring == nullptr || !probe->collecting->load(std::memory_order_relaxed)) return;
  Value record = {};
  record.value = value;
  ring->write(RecordType::kMark, name, record);
}

std::atomic<uint64_t> told_losses{0};

void tell_losses_beyond(uint64_t slack) noexcept {
  uint64_t count = names_lost() + ranges_lost();
  uint64_t before = told_losses.load(std::memory_order_relaxed);
  if (count <= before + slack) return;
  if (told_losses.compare_exchange_strong(before, count, std::memory_order_relaxed)) {
    probe->counter(kLost, sizeof(kLost) - 1, static_cast<double>(count));
  }
}

// When they have grown by an eighth, not each time; the last of them when the program ends.
void tell_losses() noexcept { tell_losses_beyond(told_losses.load(std::memory_order_relaxed) / 8); }

uint32_t name_of(Handle* domain, const Attributes* attributes) noexcept {
  if (is_whole(attributes)) return range_name(*probe, domain, *attributes);
  return range_name(*probe, domain, text_of("(no name)"));
}

int push_ex(Handle* domain, const Attributes* attributes) noexcept {
  uint32_t name = name_of(domain, attributes);
  int depth = push(*probe, domain, name);
  if (depth == static_cast<int>(kMaxDepth)) tell_losses();
  if (is_whole(attributes) && attributes->payload_type != kNoPayload) {
    write_payload(name, *attributes);
  }
  return depth;
}

void mark_ex(Handle* domain, const Attributes* attributes) noexcept {
  uint32_t name = name_of(domain, attributes);
  double number = 0;
  bool is_there = is_whole(attributes) && has_number(*attributes, &number);
  bool fits = number > -9.2e18 && number < 9.2e18;
  write_mark(name, is_there && fits ? static_cast<int64_t>(number) : 0);
  if (is_there) write_payload(name, *attributes);
}

template <typename Char>
StringHandle* register_string(DomainHandle* domain, const Char* given, Core2Call call) noexcept {
  Handle* made = intern(as_handle(domain), false, text_of(given));
  if (auto* next = behind<StringHandle*(DomainHandle*, const Char*)>(call)) {
    StringHandle* theirs = next(chained(as_handle(domain)), given);
    if (made != nullptr) made->chained = theirs;
  }
  tell_losses();
  return reinterpret_cast<StringHandle*>(made);
}

template <typename Char>
DomainHandle* create_domain(const Char* given, Core2Call call) noexcept {
  Handle* made = intern(nullptr, true, text_of(given));
  if (auto* next = behind<DomainHandle*(const Char*)>(call)) {
    DomainHandle* theirs = next(given);
    if (made != nullptr) made->chained = theirs;
  }
  return reinterpret_cast<DomainHandle*>(made);
}

template <typename Char>
int push_text(const Char* message, CoreCall call) noexcept {
  int depth = push(*probe, nullptr, range_name(*probe, nullptr, text_of(message)));
  if (depth == static_cast<int>(kMaxDepth)) tell_losses();
  if (auto* next = behind<int(const Char*)>(call)) return next(message);
  return depth;
}

template <typename Char>
RangeId start_text(const Char* message, CoreCall call) noexcept {
  auto* next = behind<RangeId(const Char*)>(call);
  RangeId theirs = next != nullptr ? next(message) : 0;
  RangeId id = start(*probe, range_name(*probe, nullptr, text_of(message)), theirs);
  tell_losses();
  return id;
}

template <typename Char>
void mark_text(const Char* message, CoreCall call) noexcept {
  write_mark(range_name(*probe, nullptr, text_of(message)), 0);
  if (auto* next = behind<void(const Char*)>(call)) next(message);
}

template <typename Char>
void category_text(uint32_t category, const Char* name, CoreCall call) noexcept {
  name_category(nullptr, category, text_of(name));
  if (auto* next = behind<void(uint32_t, const Char*)>(call)) next(category, name);
}

template <typename Char>
void thread_text(uint32_t thread, const Char* name, CoreCall call) noexcept {
  RingWriter* ring = probe->ring();
  if (ring != nullptr) {
    Text text = text_of(name);
    Thread record = {};
    record.header.flags = 1;
    record.tid = thread;
    ring->write(RecordType::kThread, probe->string(text.bytes, text.length), record);
  }
  if (auto* next = behind<void(uint32_t, const Char*)>(call)) next(thread, name);
}

// The functions of the table CORE: the default domain.

void on_mark_ex(const Attributes* attributes) {
  mark_ex(nullptr, attributes);
  if (auto* next = behind<void(const Attributes*)>(kMarkEx)) {
    if (!is_whole(attributes)) return next(attributes);
    Attributes copy = chained(*attributes);
    next(&copy);
  }
}
void on_mark_a(const char* message) { mark_text(message, kMarkA); }
void on_mark_w(const wchar_t* message) { mark_text(message, kMarkW); }

RangeId on_start_ex(const Attributes* attributes) {
  RangeId theirs = 0;
  if (auto* next = behind<RangeId(const Attributes*)>(kRangeStartEx)) {
    Attributes copy = is_whole(attributes) ? chained(*attributes) : Attributes{};
    theirs = next(is_whole(attributes) ? &copy : attributes);
  }
  RangeId id = start(*probe, name_of(nullptr, attributes), theirs);
  tell_losses();
  return id;
}
RangeId on_start_a(const char* message) { return start_text(message, kRangeStartA); }
RangeId on_start_w(const wchar_t* message) { return start_text(message, kRangeStartW); }

void on_end(RangeId id) {
  RangeId theirs = end(*probe, id);
  if (auto* next = behind<void(RangeId)>(kRangeEnd)) next(theirs);
}

int on_push_ex(const Attributes* attributes) {
  int depth = push_ex(nullptr, attributes);
  if (auto* next = behind<int(const Attributes*)>(kRangePushEx)) {
    if (!is_whole(attributes)) return next(attributes);
    Attributes copy = chained(*attributes);
    return next(&copy);
  }
  return depth;
}
int on_push_a(const char* message) { return push_text(message, kRangePushA); }
int on_push_w(const wchar_t* message) { return push_text(message, kRangePushW); }

int on_pop() {
  int depth = pop(*probe, nullptr);
  if (auto* next = behind<int()>(kRangePop)) return next();
  return depth;
}

void on_category_a(uint32_t n, const char* name) { category_text(n, name, kNameCategoryA); }
void on_category_w(uint32_t n, const wchar_t* name) { category_text(n, name, kNameCategoryW); }
void on_thread_a(uint32_t thread, const char* name) { thread_text(thread, name, kNameOsThreadA); }
void on_thread_w(uint32_t thread, const wchar_t* name) {
  thread_text(thread, name, kNameOsThreadW);
}

// The functions of the table CORE2: any domain.

void on_domain_mark(DomainHandle* domain, const Attributes* attributes) {
  mark_ex(as_handle(domain), attributes);
  if (auto* next = behind<void(DomainHandle*, const Attributes*)>(kDomainMarkEx)) {
    Attributes copy = is_whole(attributes) ? chained(*attributes) : Attributes{};
    next(chained(as_handle(domain)), is_whole(attributes) ? &copy : attributes);
  }
}

RangeId on_domain_start(DomainHandle* domain, const Attributes* attributes) {
  RangeId theirs = 0;
  if (auto* next = behind<RangeId(DomainHandle*, const Attributes*)>(kDomainRangeStartEx)) {
    Attributes copy = is_whole(attributes) ? chained(*attributes) : Attributes{};
    theirs = next(chained(as_handle(domain)), is_whole(attributes) ? &copy : attributes);
  }
  RangeId id = start(*probe, name_of(as_handle(domain), attributes), theirs);
  tell_losses();
  return id;
}

void on_domain_end(DomainHandle* domain, RangeId id) {
  RangeId theirs = end(*probe, id);
  if (auto* next = behind<void(DomainHandle*, RangeId)>(kDomainRangeEnd)) {
    next(chained(as_handle(domain)), theirs);
  }
}

int on_domain_push(DomainHandle* domain, const Attributes* attributes) {
  int depth = push_ex(as_handle(domain), attributes);
  if (auto* next = behind<int(DomainHandle*, const Attributes*)>(kDomainRangePushEx)) {
    Attributes copy = is_whole(attributes) ? chained(*attributes) : Attributes{};
    return next(chained(as_handle(domain)), is_whole(attributes) ? &copy : attributes);
  }
  return depth;
}

int on_domain_pop(DomainHandle* domain) {
  int depth = pop(*probe, as_handle(domain));
  if (auto* next = behind<int(DomainHandle*)>(kDomainRangePop)) {
    return next(chained(as_handle(domain)));
  }
  return depth;
}

template <typename Char>
void domain_category(DomainHandle* domain, uint32_t category, const Char* name,
                     Core2Call call) noexcept {
  name_category(as_handle(domain), category, text_of(name));
  if (auto* next = behind<void(DomainHandle*, uint32_t, const Char*)>(call)) {
    next(chained(as_handle(domain)), category, name);
  }
}
void on_domain_category_a(DomainHandle* domain, uint32_t category, const char* name) {
  domain_category(domain, category, name, kDomainNameCategoryA);
}
void on_domain_category_w(DomainHandle* domain, uint32_t category, const wchar_t* name) {
  domain_category(domain, category, name, kDomainNameCategoryW);
}

StringHandle* on_register_a(DomainHandle* domain, const char* text) {
  return register_string(domain, text, kDomainRegisterStringA);
}
StringHandle* on_register_w(DomainHandle* domain, const wchar_t* text) {
  return register_string(domain, text, kDomainRegisterStringW);
}

DomainHandle* on_create_a(const char* name) { return create_domain(name, kDomainCreateA); }
DomainHandle* on_create_w(const wchar_t* name) { return create_domain(name, kDomainCreateW); }

// What these name is not recorded; a tool behind us gets it with its own handles.
template <typename Given, typename Call>
void* create_named(DomainHandle* domain, const Given* attributes, Call call) noexcept {
  auto* next = behind<void*(DomainHandle*, const Given*)>(call);
  if (next == nullptr) return nullptr;
  Given copy = is_whole(attributes) ? chained(*attributes) : Given{};
  return next(chained(as_handle(domain)), is_whole(attributes) ? &copy : attributes);
}
void* on_resource(DomainHandle* domain, const ResourceAttributes* attributes) {
  return create_named(domain, attributes, kDomainResourceCreate);
}
void* on_sync(DomainHandle* domain, const SyncAttributes* attributes) {
  return create_named(domain, attributes, kDomainSyncUserCreate);
}

// Ours stays: another part of the program may have a domain of the same name.
void on_destroy(DomainHandle* domain) {
  if (auto* next = behind<void(DomainHandle*)>(kDomainDestroy)) next(chained(as_handle(domain)));
}

template <typename F>
Function plain(F* function) noexcept {
  return reinterpret_cast<Function>(function);
}

const Hook kCoreHooks[] = {
    {kMarkEx, plain(on_mark_ex)},
    {kMarkA, plain(on_mark_a)},
    {kMarkW, plain(on_mark_w)},
    {kRangeStartEx, plain(on_start_ex)},
    {kRangeStartA, plain(on_start_a)},
    {kRangeStartW, plain(on_start_w)},
    {kRangeEnd, plain(on_end)},
    {kRangePushEx, plain(on_push_ex)},
    {kRangePushA, plain(on_push_a)},
    {kRangePushW, plain(on_push_w)},
    {kRangePop, plain(on_pop)},
    {kNameCategoryA, plain(on_category_a)},
    {kNameCategoryW, plain(on_category_w)},
    {kNameOsThreadA, plain(on_thread_a)},
    {kNameOsThreadW, plain(on_thread_w)},
};
const Hook kCore2Hooks[] = {
    {kDomainMarkEx, plain(on_domain_mark)},
    {kDomainRangeStartEx, plain(on_domain_start)},
    {kDomainRangeEnd, plain(on_domain_end)},
    {kDomainRangePushEx, plain(on_domain_push)},
    {kDomainRangePop, plain(on_domain_pop)},
    {kDomainResourceCreate, plain(on_resource)},
    {kDomainNameCategoryA, plain(on_domain_category_a)},
    {kDomainNameCategoryW, plain(on_domain_category_w)},
    {kDomainRegisterStringA, plain(on_register_a)},
    {kDomainRegisterStringW, plain(on_register_w)},
    {kDomainCreateA, plain(on_create_a)},
    {kDomainCreateW, plain(on_create_w)},
    {kDomainDestroy, plain(on_destroy)},
};
const Hook kSyncHooks[] = {{kDomainSyncUserCreate, plain(on_sync)}};

}  // namespace

void use(const ProviderApi* api) noexcept {
  if (probe == nullptr) first_run = api->run->load(std::memory_order_relaxed);
  probe = api;
  // While there is room for names.
  api->string(kLost, sizeof(kLost) - 1);
}

Hooks core_calls() noexcept { return {kCoreHooks, sizeof(kCoreHooks) / sizeof(Hook), core_behind}; }
Hooks core2_calls() noexcept {
  return {kCore2Hooks, sizeof(kCore2Hooks) / sizeof(Hook), core2_behind};
}
Hooks sync_calls() noexcept { return {kSyncHooks, sizeof(kSyncHooks) / sizeof(Hook), sync_behind}; }

void tell_all_losses() noexcept {
  if (RingWriter* ring = probe->ring(); ring != nullptr) ring->use_reserve();
  // What was last said may have found the ring full; but a forked child has its parent's counts.
  if (probe->run->load(std::memory_order_relaxed) == first_run) told_losses = 0;
  tell_losses_beyond(0);
}

}  // namespace pilotlight::nvtx
