// native/cuda/lent_place.cpp
#include "cuda/lent_place.h"

namespace pilotlight::cupti {
namespace {

constexpr uint8_t kTheirs = 1, kOurs = 2;

class Locked {
 public:
  explicit Locked(pthread_mutex_t* lock) noexcept : lock_(lock) { pthread_mutex_lock(lock_); }
  ~Locked() { pthread_mutex_unlock(lock_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* lock_;
};

}  // namespace

LentPlace& LentPlace::get() noexcept {
  static LentPlace place;
  return place;
}

void LentPlace::through(void* place, uint32_t domain, uint32_t id, const void* data) noexcept {
  auto* self = static_cast<LentPlace*>(place);
  uint8_t wants =
      is_known(domain, id) ? self->wants_[domain][id].load(std::memory_order_acquire) : 0;
  if ((wants & kOurs) != 0) self->our_callback_(self->our_user_, domain, id, data);
  // What it asked for in a way that we did not see is theirs too.
  if (wants != kOurs) self->their_callback_(self->their_user_, domain, id, data);
}

void LentPlace::know(const PlaceFunctions& functions) noexcept { functions_ = functions; }

Result LentPlace::subscribe(Subscriber* subscriber, Callback callback, void* user) noexcept {
  if (callback == nullptr) return functions_.subscribe(subscriber, callback, user);
  Locked locked(&lock_);
  their_callback_ = callback;
  their_user_ = user;
  Result result = functions_.subscribe(subscriber, through, this);
  if (result == kSuccess) subscriber_ = *subscriber;
  return result;
}

void LentPlace::close() noexcept {
  Locked locked(&lock_);
  is_lent_.store(false, std::memory_order_release);
  subscriber_ = nullptr;
  for (auto& domain : wants_) {
    for (auto& wants : domain) wants.store(0, std::memory_order_relaxed);
  }
}

Result LentPlace::enable_callback(uint32_t on, Subscriber subscriber, uint32_t domain,
                                  uint32_t id) noexcept {
  if (subscriber_ == nullptr || subscriber != subscriber_ || !is_known(domain, id)) {
    return functions_.enable_callback(on, subscriber, domain, id);
  }
  Locked locked(&lock_);
  std::atomic<uint8_t>& wants = wants_[domain][id];
  if (on != 0) {
    wants.fetch_or(kTheirs);
  } else if ((wants.fetch_and(static_cast<uint8_t>(~kTheirs)) & kOurs) != 0) {
    return kSuccess;
  }
  return functions_.enable_callback(on, subscriber, domain, id);
}

void LentPlace::set_domain(uint32_t on, uint32_t domain) noexcept {
  for (uint32_t id = 0; id < kIds; id++) {
    std::atomic<uint8_t>& wants = wants_[domain][id];
    if (on != 0) {
      wants.fetch_or(kTheirs);
    } else if ((wants.fetch_and(static_cast<uint8_t>(~kTheirs)) & kOurs) != 0) {
      functions_.enable_callback(1, subscriber_, domain, id);
    }
  }
}

Result LentPlace::enable_domain(uint32_t on, Subscriber subscriber, uint32_t domain) noexcept {
  Locked locked(&lock_);
  Result result = functions_.enable_domain(on, subscriber, domain);
  bool is_theirs = subscriber_ != nullptr && subscriber == subscriber_ && domain < kDomains;
  if (result == kSuccess && is_theirs) set_domain(on, domain);
  return result;
}

Result LentPlace::enable_all(uint32_t on, Subscriber subscriber) noexcept {
  Locked locked(&lock_);
  Result result = functions_.enable_all(on, subscriber);
  bool is_theirs = subscriber_ != nullptr && subscriber == subscriber_;
  for (uint32_t domain = 1; result == kSuccess && is_theirs && domain < kDomains; domain++) {
    set_domain(on, domain);
  }
  return result;
}

Subscriber LentPlace::use(Callback callback, void* user) noexcept {
  Locked locked(&lock_);
  if (!is_lent()) return nullptr;
  our_callback_ = callback;
  our_user_ = user;
  return subscriber_;
}

Result LentPlace::enable_ours(bool on, uint32_t domain, uint32_t id) noexcept {
  Locked locked(&lock_);
  if (subscriber_ == nullptr || !is_known(domain, id)) return kInvalidParameter;
  std::atomic<uint8_t>& wants = wants_[domain][id];
  if (on) {
    wants.fetch_or(kOurs);
  } else if ((wants.fetch_and(static_cast<uint8_t>(~kOurs)) & kTheirs) != 0) {
    return kSuccess;
  }
  return functions_.enable_callback(on ? 1 : 0, subscriber_, domain, id);
}

void LentPlace::leave() noexcept {
  for (uint32_t domain = 1; domain < kDomains; domain++) {
    for (uint32_t id = 0; id < kIds; id++) {
      uint8_t wants = wants_[domain][id].load(std::memory_order_relaxed);
      if ((wants & kOurs) != 0) enable_ours(false, domain, id);
    }
  }
}

}  // namespace pilotlight::cupti
