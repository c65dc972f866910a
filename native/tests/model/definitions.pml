/* native/tests/model/definitions.pml: a definition is visible before any record that uses its id.
 *
 * Two writers with a ring each define the same text; whoever is first appends it to the arena, the
 * other finds it in the table and uses the id in its own ring. Their stores reach memory in any
 * order, but a release store waits for those before it. The reader loads the head of a ring, copies
 * the record, and then loads the head of the arena: everything it names must be there.
 *
 * Each #ifdef is a mistake that the checks have to find; tests/native/test_model.py tries them all.
 */
#define BUFFER 4
#define TEXT 7

#define ARENA 0
#define ARENA_HEAD 1
#define BUSY 2
#define RECORD(w) (3 + (w))
#define HEAD(w) (5 + (w))
#define PLACES 7

#ifdef RELAXED_ARENA_HEAD_STORE
#define ARENA_HEAD_RELEASE 0
#else
#define ARENA_HEAD_RELEASE 1
#endif
#ifdef RELAXED_UNLOCK
#define UNLOCK_RELEASE 0
#else
#define UNLOCK_RELEASE 1
#endif
#ifdef RELAXED_HEAD_STORE
#define HEAD_RELEASE 0
#else
#define HEAD_RELEASE 1
#endif

/* Memory, as everybody sees it. */
byte memory[PLACES];

typedef Store {
  byte place;
  byte value;
  bit release
};
typedef Buffer {
  Store store[BUFFER];
  byte used
};
Buffer buffer[2];

/* Private to the producer, under the lock: the id of TEXT, 0 if it has none. */
byte table;

inline put(w, where, what, ordered) {
  atomic {
    buffer[w].used < BUFFER;
    buffer[w].store[buffer[w].used].place = where;
    buffer[w].store[buffer[w].used].value = what;
    buffer[w].store[buffer[w].used].release = ordered;
    buffer[w].used++
  }
}

#define FREE_OF(w, i, j) (buffer[w].store[j].place != buffer[w].store[i].place)
#define CAN_0(w) (buffer[w].used > 0)
#define CAN_1(w) (buffer[w].used > 1 && !buffer[w].store[1].release && FREE_OF(w, 1, 0))
#define CAN_2(w) \
  (buffer[w].used > 2 && !buffer[w].store[2].release && FREE_OF(w, 2, 0) && FREE_OF(w, 2, 1))
#define CAN_3(w)                                                            \
  (buffer[w].used > 3 && !buffer[w].store[3].release && FREE_OF(w, 3, 0) && \
   FREE_OF(w, 3, 1) && FREE_OF(w, 3, 2))

inline reach_memory(w, i) {
  memory[buffer[w].store[i].place] = buffer[w].store[i].value;
  shift = i;
  do
  :: shift + 1 < buffer[w].used ->
     buffer[w].store[shift].place = buffer[w].store[shift + 1].place;
     buffer[w].store[shift].value = buffer[w].store[shift + 1].value;
     buffer[w].store[shift].release = buffer[w].store[shift + 1].release;
     shift++
  :: else -> break
  od;
  buffer[w].used--;
  shift = 0
}

active proctype stores() {
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

proctype writer(byte w) {
  byte id;
  /* test_and_set with acquire: an exchange acts on memory itself. */
  atomic { memory[BUSY] == 0 -> memory[BUSY] = 1 };
  if
  :: table == 0 ->
#ifdef PUBLISHED_FIRST
     put(w, ARENA_HEAD, 1, ARENA_HEAD_RELEASE);
     put(w, ARENA, TEXT, 0);
#else
     put(w, ARENA, TEXT, 0);
     put(w, ARENA_HEAD, 1, ARENA_HEAD_RELEASE);
#endif
     table = 1
  :: else
  fi;
  id = table;
  put(w, BUSY, 0, UNLOCK_RELEASE);
  put(w, RECORD(w), id, 0);
  put(w, HEAD(w), 1, HEAD_RELEASE)
}

proctype reader() {
  byte w, id;
  bool published;
  if
  :: w = 0
  :: w = 1
  fi;
#ifdef ARENA_HEAD_LOADED_FIRST
  published = memory[ARENA_HEAD] == 1;
#endif
  memory[HEAD(w)] == 1;
  id = memory[RECORD(w)];
  assert(id == 1);
#ifndef ARENA_HEAD_LOADED_FIRST
  published = memory[ARENA_HEAD] == 1;
#endif
  assert(published);
  assert(memory[ARENA] == TEXT)
}

/* What lies below the head of the arena is whole, also for who comes by no record. */
proctype walker() {
  memory[ARENA_HEAD] == 1;
  assert(memory[ARENA] == TEXT)
}

init {
  atomic {
    run writer(0);
    run writer(1);
    run reader();
    run walker()
  }
}
