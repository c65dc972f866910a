// native/tests/ring_lttng_provider.h: an LTTng-UST event with three integers.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER pilotlight_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ring_lttng_provider.h"

// The header is read several times on purpose: that is how LTTng makes code of it.
#if !defined(PILOTLIGHT_RING_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PILOTLIGHT_RING_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(pilotlight_bench, event,
                           LTTNG_UST_TP_ARGS(int, first, int, second, int, third),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, first, first)
                                                   lttng_ust_field_integer(int, second, second)
                                                       lttng_ust_field_integer(int, third, third)))

#endif

#include <lttng/tracepoint-event.h>
