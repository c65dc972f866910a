/* native/tests/model/definitions.pml: a definition is visible before any record that uses its id.
 *
 * Two writers with a ring each define the same text, without a lock. Who does not find it in the
 * table takes a place in the arena, writes it, publishes the arena's head and tries to put its id
 * into the table; who comes second there uses the first one's id. Their stores reach memory in any
 * order, but a release store waits for those before it. The reader loads the head of a ring, copies
 * the record, and then loads the head of the arena: everything it names must be there.
 *
 * Each #ifdef is a mistake that the checks have to find; tests/native/test_model.py tries them all.
 */
#define BUFFER 4
#define TEXT 7

#define ENTRY(id) ((id) - 1)
#define ARENA_HEAD 2
#define TABLE 3
#define RECORD(w) (4 + (w))
#define HEAD(w) (6 + (w))
#define PLACES 8

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

/* Private to the producer: how many places were given away. */
byte given;

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

/* A compare-and-swap acts on memory itself; with release order after the stores before it. */
#ifdef RELAXED_TABLE_STORE
#define RELEASED(w) (true)
#else
#define RELEASED(w) (buffer[w].used == 0)
#endif

proctype writer(byte w) {
  byte id;
  id = memory[TABLE];
  if
  :: id == 0 ->
     atomic { given++; id = given };
#ifndef WRITTEN_LAST
     put(w, ENTRY(id), TEXT, 0);
#endif
#ifndef HEAD_NOT_PUBLISHED
     atomic {
       RELEASED(w);
       if
       :: memory[ARENA_HEAD] < id -> memory[ARENA_HEAD] = id
       :: else
       fi
     };
#endif
     atomic {
       RELEASED(w);
       if
       :: memory[TABLE] == 0 -> memory[TABLE] = id
#ifndef OWN_ID_KEPT
       :: else -> id = memory[TABLE]
#else
       :: else
#endif
       fi
     };
#ifdef WRITTEN_LAST
     put(w, ENTRY(id), TEXT, 0);
#endif
  :: else
  fi;
  put(w, RECORD(w), id, 0);
  put(w, HEAD(w), 1, HEAD_RELEASE)
}

proctype reader() {
  byte w, id;
  byte published;
  if
  :: w = 0
  :: w = 1
  fi;
#ifdef ARENA_HEAD_LOADED_FIRST
  published = memory[ARENA_HEAD];
#endif
  memory[HEAD(w)] == 1;
  id = memory[RECORD(w)];
  assert(id != 0);
#ifndef ARENA_HEAD_LOADED_FIRST
  published = memory[ARENA_HEAD];
#endif
  assert(published >= id);
  assert(memory[ENTRY(id)] == TEXT)
}

/* One content, one id. */
proctype comparer() {
  memory[HEAD(0)] == 1 && memory[HEAD(1)] == 1;
  assert(memory[RECORD(0)] == memory[RECORD(1)])
}

init {
  atomic {
    run writer(0);
    run writer(1);
    run reader();
    run comparer()
  }
}
