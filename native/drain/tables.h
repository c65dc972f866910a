// native/drain/tables.h: rows as columns, and the definitions that they use.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "drain/reader.h"

namespace pilotlight {

struct Column {
  const char* name;
  std::string bytes;  // little-endian values; for text, the characters
};

struct Table {
  const char* name;
  uint64_t rows = 0;
  std::vector<Column> columns;
};

// Names, frames and stacks that were not yet given to a chunk.
class DefinitionTables {
 public:
  DefinitionTables(const DefinitionReader* reader, IdSet* given) : reader_(reader), given_(given) {}

  void name(uint32_t id);
  void stack(uint32_t id);
  void track(uint32_t id);
  std::vector<Table> tables(uint32_t process) &&;

 private:
  struct Text {
    std::string characters;
    std::string offsets = std::string(4, '\0');
    void add(const std::string& text);
  };
  void frame(uint32_t id);
  std::string text(uint32_t id) const;

  const DefinitionReader* reader_;
  IdSet* given_;
  std::vector<uint32_t> name_ids_;
  Text names_;
  struct FrameRow {
    uint32_t id, line, first_line;
  };
  std::vector<FrameRow> frames_;
  Text functions_, files_;
  struct StackRow {
    uint32_t id, parent, frame;
  };
  std::vector<StackRow> stacks_;
  struct TrackRow {
    uint32_t id, name;
    uint16_t kind, device;
    uint64_t stream;
  };
  std::vector<TrackRow> tracks_;
};

// `given`: what the chunk already has; the definitions of these rows are added to it.
std::vector<Table> detail_tables(const Rows& rows, uint32_t process,
                                 const DefinitionReader& definitions, IdSet* given);
std::vector<Table> window_tables(const WindowRows& rows, uint32_t process,
                                 const DefinitionReader& definitions, IdSet* given);

// Replaces what is not UTF-8: names come from a process that nobody trusts.
std::string valid_utf8(const std::string& text);

}  // namespace pilotlight
