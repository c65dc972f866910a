/* native/tests/model/ring.pml: publish and consume over memory that reorders.
 *
 * Two writers, one after the other (the second takes the ring over when the first has retired it),
 * each with a store buffer whose entries reach memory in any order; only a release store waits for
 * those before it. One reader copies what is published, checks it, moves the tail; it may be killed
 * at any time and followed by another that goes on at the tail. A writer killed at any instruction
 * needs no process of its own: every assertion holds in every prefix of every run.
 *
 * Scale: a ring of 4 units; records of 1 or 2 units, gaps of 2. A record of two units is two stores.
 * Every record has a number, so that reading one torn, stale, twice, or not at all trips a check.
 *
 * Each #ifdef is a mistake that the checks have to find; tests/native/test_model.py tries them all.
 */
#define UNITS 4
#define BUFFER 4
#ifndef FIRST_WRITES
#define FIRST_WRITES 4
#endif
#ifndef SECOND_WRITES
#define SECOND_WRITES 2
#endif

#define PAD 1
#define GAP 2
#define EVENT 3
#define THREAD 4
#define REST 5
#define CELL(kind, size, number) ((kind) * 64 + (size) * 16 + (number))

#define HEAD UNITS
#define STATE (UNITS + 1)
#define ACTIVE 1
#define RETIRED 2

#ifdef RELAXED_HEAD_STORE
#define HEAD_RELEASE 0
#else
#define HEAD_RELEASE 1
#endif
#ifdef RELAXED_GAP_STORE
#define GAP_RELEASE 0
#else
#define GAP_RELEASE 1
#endif
#ifdef RELAXED_RETIRE_STORE
#define RETIRE_RELEASE 0
#else
#define RETIRE_RELEASE 1
#endif

/* Memory, as everybody sees it. */
short cell[UNITS];
byte head, tail, drops;
byte state = ACTIVE;

typedef Store {
  byte place;
  short value;
  byte position;
  bit release
};
typedef Buffer {
  Store store[BUFFER];
  byte used
};
Buffer buffer[2];

/* Not in the code: for the checks only. */
byte numbered;
byte ended;

inline put(w, where, what, at, ordered) {
  atomic {
    buffer[w].used < BUFFER;
    buffer[w].store[buffer[w].used].place = where;
    buffer[w].store[buffer[w].used].value = what;
    buffer[w].store[buffer[w].used].position = at;
    buffer[w].store[buffer[w].used].release = ordered;
    buffer[w].used++
  }
}

#define FREE_OF(w, i, j) (buffer[w].store[j].place != buffer[w].store[i].place)
#define CAN_0(w) (buffer[w].used > 0)
#define CAN_1(w) (buffer[w].used > 1 && !buffer[w].store[1].release && FREE_OF(w, 1, 0))
#define CAN_2(w) \
  (buffer[w].used > 2 && !buffer[w].store[2].release && FREE_OF(w, 2, 0) && FREE_OF(w, 2, 1))
#define CAN_3(w)                                                                \
  (buffer[w].used > 3 && !buffer[w].store[3].release && FREE_OF(w, 3, 0) &&     \
   FREE_OF(w, 3, 1) && FREE_OF(w, 3, 2))

inline reach_memory(w, i) {
  if
  :: buffer[w].store[i].place < UNITS ->
     /* Nothing is overwritten before it was consumed. */
     assert(buffer[w].store[i].position < tail + UNITS);
     cell[buffer[w].store[i].place] = buffer[w].store[i].value
  :: buffer[w].store[i].place == HEAD -> head = buffer[w].store[i].value
  :: buffer[w].store[i].place == STATE -> state = buffer[w].store[i].value
  fi;
  shift = i;
  do
  :: shift + 1 < buffer[w].used ->
     buffer[w].store[shift].place = buffer[w].store[shift + 1].place;
     buffer[w].store[shift].value = buffer[w].store[shift + 1].value;
     buffer[w].store[shift].position = buffer[w].store[shift + 1].position;
     buffer[w].store[shift].release = buffer[w].store[shift + 1].release;
     shift++
  :: else -> break
  od;
  buffer[w].used--;
  buffer[w].store[buffer[w].used].place = 0;
  buffer[w].store[buffer[w].used].value = 0;
  buffer[w].store[buffer[w].used].position = 0;
  buffer[w].store[buffer[w].used].release = 0;
  shift = 0
}

active proctype memory() {
  byte shift;
end:
  do
  :: d_step { CAN_0(0) -> reach_memory(0, 0) }
  :: d_step { CAN_1(0) -> reach_memory(0, 1) }
  :: d_step { CAN_2(0) -> reach_memory(0, 2) }
  :: d_step { CAN_3(0) -> reach_memory(0, 3) }
  :: d_step { CAN_0(1) -> reach_memory(1, 0) }
  :: d_step { CAN_1(1) -> reach_memory(1, 1) }
  :: d_step { CAN_2(1) -> reach_memory(1, 2) }
  :: d_step { CAN_3(1) -> reach_memory(1, 3) }
  od
}

/* RingWriter, with its names. */
inline refresh_limit() {
  d_step {
#ifdef TAIL_NOT_READ
    free_end = own_head + UNITS;
#else
    free_end = tail + UNITS;
#endif
    wrap = (own_head / UNITS + 1) * UNITS;
    limit = (free_end < wrap -> free_end : wrap)
  }
}

inline pad_to_wrap(units) {
  fits = false;
  if
  :: own_head + units <= wrap || wrap + units > free_end -> skip
  :: else ->
#ifndef PAD_NOT_WRITTEN
     put(w, own_head % UNITS, CELL(PAD, wrap - own_head, 0), own_head, 0);
#endif
     own_head = wrap;
     refresh_limit();
     fits = (own_head + units <= limit)
  fi
}

inline write_gap() {
  fits = (own_head + 2 <= limit);
  if
  :: !fits -> pad_to_wrap(2)
  :: else
  fi;
  if
  :: fits ->
     put(w, own_head % UNITS, CELL(GAP, 2, lost), own_head, 0);
     put(w, (own_head + 1) % UNITS, CELL(REST, 0, first_lost), own_head + 1, 0);
     own_head = own_head + 2;
     put(w, HEAD, own_head, 0, GAP_RELEASE);
     lost = 0;
     first_lost = 0
  :: else
  fi
}

inline make_room(units) {
  refresh_limit();
  fits = true;
#ifdef GAP_FORGOTTEN
  lost = 0;
#endif
  if
  :: lost > 0 -> write_gap()
  :: else
  fi;
  if
  :: fits && own_head + units > limit -> pad_to_wrap(units)
  :: else
  fi;
  if
  :: !fits ->
     d_step {
       if
       :: lost == 0 -> first_lost = number
       :: else
       fi;
       lost++;
       limit = 0;
       drops++
     }
  :: else
  fi
}

inline write(kind, units) {
  d_step {
    number = numbered;
    numbered++;
    fits = (own_head + units <= limit)
  }
  if
  :: !fits -> make_room(units)
  :: else
  fi;
  if
  :: fits ->
#ifdef PUBLISHED_FIRST
     put(w, HEAD, own_head + units, 0, HEAD_RELEASE);
#endif
     put(w, own_head % UNITS, CELL(kind, units, number), own_head, 0);
     if
     :: units == 2 ->
        put(w, (own_head + 1) % UNITS, CELL(REST, 0, number), own_head + 1, 0)
     :: else
     fi;
     own_head = own_head + units;
#ifndef PUBLISHED_FIRST
     put(w, HEAD, own_head, 0, HEAD_RELEASE)
#else
     skip
#endif
  :: else
  fi;
  number = 0
}

proctype writer(byte w; byte writes) {
  byte own_head, limit, free_end, wrap, lost, first_lost, number;
  bool fits;
  if
  :: w == 1 ->
     atomic { state == RETIRED -> state = ACTIVE };
     own_head = head;
     refresh_limit();
     write(THREAD, 1);
     /* Without its announcement a ring is not used. */
     writes = (fits -> writes : 0)
  :: else -> refresh_limit()
  fi;
  do
  :: writes > 0 ->
     writes--;
     if
     :: write(EVENT, 1)
     :: write(EVENT, 2)
     fi
  :: else -> break
  od;
  put(w, STATE, RETIRED, 0, RETIRE_RELEASE);
  ended++
}

/* RingReader and the agent's commit. */
proctype reader() {
  short copy[UNITS];
  short first, rest;
  byte at, end, position, next, told;
  byte saved_next, saved_told;
  do
  ::
#ifdef RELAXED_HEAD_LOAD
     at = 0;
     do
     :: at < UNITS -> d_step { copy[at] = cell[at]; at++ }
     :: else -> break
     od;
#endif
     atomic { head > position -> end = head };
#ifdef RELAXED_TAIL_STORE
     tail = end;
#endif
     at = position;
#ifndef RELAXED_HEAD_LOAD
     do
     :: at < end -> d_step { copy[at % UNITS] = cell[at % UNITS]; at++ }
     :: else -> break
     od;
#endif
     at = 0;
     d_step {
       do
       :: position < end ->
          first = copy[position % UNITS];
          rest = copy[(position + 1) % UNITS];
          if
          :: first / 64 == PAD ->
             assert(first == CELL(PAD, UNITS - position % UNITS, 0))
          :: first / 64 == EVENT ->
             assert(first % 16 == next);
             assert((first / 16) % 4 == 1 || rest == CELL(REST, 0, next));
             next++
          :: first / 64 == GAP ->
             assert(rest == CELL(REST, 0, next));
             next = next + first % 16;
             told = told + first % 16
          :: first / 64 == THREAD ->
             /* What the last owner lost and could not tell any more is in `drops` alone. */
             assert(first % 16 >= next);
             told = told + first % 16 - next;
             next = first % 16 + 1
          :: else -> assert(false)
          fi;
          /* No record crosses the wrap. */
          assert(position % UNITS + (first / 16) % 4 <= UNITS);
          position = position + (first / 16) % 4
       :: else -> break
       od;
       at = 0;
       do
       :: at < UNITS -> copy[at] = 0; at++
       :: else -> break
       od;
       at = 0;
       first = 0;
       rest = 0;
       end = 0
     }
  :: d_step {
       tail != position ->
       saved_next = next;
       saved_told = told;
       tail = position
     }
#ifndef RELAXED_TAIL_STORE
  :: d_step {
       tail != position ->
       /* Killed before the commit; the next reader has what the last commit says. */
       position = tail;
       next = saved_next;
       told = saved_told
     }
#endif
  :: atomic {
       ended == 2 && buffer[0].used == 0 && buffer[1].used == 0 && position == head ->
       /* Every record was read or is counted as dropped. */
       assert(next + (drops - told) == numbered);
       break
     }
  od
}

init {
  atomic {
    run writer(0, FIRST_WRITES);
    run writer(1, SECOND_WRITES);
    run reader()
  }
}
