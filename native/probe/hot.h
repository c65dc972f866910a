// native/probe/hot.h: what runs in every step of a framework lies together, so that a step that
// leaves little of us in the caches fetches few lines and one page for it.
#pragma once

#define PILOTLIGHT_HOT __attribute__((section(".text.hot.pilotlight")))
#define PILOTLIGHT_COLD __attribute__((cold, noinline))
