// native/tests/ring_check.h: checks that stay on in every build, and the list of tests of a
// program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (0)

#define CHECK_EQUAL(left, right)                                                            \
  do {                                                                                      \
    auto left_value = static_cast<unsigned long long>(left);                                \
    auto right_value = static_cast<unsigned long long>(right);                              \
    if (left_value != right_value) {                                                        \
      std::fprintf(stderr, "%s:%d: %s is %llu, not %s = %llu\n", __FILE__, __LINE__, #left, \
                   left_value, #right, right_value);                                        \
      std::abort();                                                                         \
    }                                                                                       \
  } while (0)

namespace pilotlight {

struct Test {
  const char* name;
  void (*run)();
};

#define TEST(function) \
  ::pilotlight::Test { #function, function }

// Runs all tests, or those named on the command line; prints the name of each that held.
inline int run_tests(std::initializer_list<Test> tests, int argc, char** argv) {
  int ran = 0;
  for (const Test& test : tests) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= std::strcmp(argv[i], test.name) == 0;
    if (!wanted) continue;
    test.run();
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    ran++;
  }
  if (ran == 0) std::fprintf(stderr, "no such test\n");
  return ran == 0;
}

}  // namespace pilotlight
