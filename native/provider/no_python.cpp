// native/provider/no_python.cpp: the parts of a probe that need an interpreter, where there is
// none.
#include "probe/own_stack.h"
#include "probe/sampler.h"

namespace pilotlight {

struct Sampler::State {};

Sampler::~Sampler() = default;
bool Sampler::open(const PythonInfo&, const CopyWindow*, Definitions*, RingWriter*) noexcept {
  return false;
}
void Sampler::pass() noexcept {}
void Sampler::restart() noexcept {}
SamplerCounts Sampler::counts() const noexcept { return {}; }
const char* Sampler::why() const noexcept { return "no Python in this process"; }

void describe_python(PythonInfo*) noexcept {}

bool OwnStack::open(const PythonInfo&, Definitions*) noexcept { return false; }
void OwnStack::tell_time(int64_t) noexcept {}
uint32_t OwnStack::take() noexcept { return 0; }

}  // namespace pilotlight
