// native/probe/line_table.h: from a place in the code of a function to the line of its source.
#pragma once

#include <cstdint>

namespace pilotlight {

// `table` is a private copy of co_linetable, `offset` counts bytes of code. 0: no line is known
// there. A table that is nonsense gives a wrong number, never a read outside of it.
uint32_t line_at(uint32_t python_version, const unsigned char* table, uint32_t bytes,
                 uint32_t first_line, uint32_t offset) noexcept;

}  // namespace pilotlight
