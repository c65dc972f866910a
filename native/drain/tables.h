// native/drain/tables.h: rows as columns, and the definitions that they use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drain/reader.h"

namespace pilotlight {

// Little-endian values; for text, the characters. Not set to anything before they are written:
// columns are made many times a second.
class Column {
 public:
  Column(const char* name, size_t size) : name(name), bytes_(new char[size]), size_(size) {}
  Column(const char* name, std::string_view bytes) : Column(name, bytes.size()) {
    bytes.copy(bytes_.get(), bytes.size());
  }
  char* data() noexcept { return bytes_.get(); }
  std::string_view bytes() const noexcept { return {bytes_.get(), size_}; }

  const char* name;

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
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

  // Nearly always the chunk has them: no call then.
  void name(uint32_t id) {
    if (given_->add(id)) new_name(id);
  }
  void stack(uint32_t id) {
    if (given_->add(id)) new_stack(id);
  }
  void track(uint32_t id) {
    if (given_->add(id)) new_track(id);
  }
  std::vector<Table> tables(uint32_t process) &&;

 private:
  struct Text {
    std::string characters;
    std::string offsets = std::string(4, '\0');
    void add(const std::string& text);
    void add_to(std::vector<Column>* columns, const char* name, const char* offsets_name) const;
  };
  void new_name(uint32_t id);
  void new_stack(uint32_t id);
  void new_track(uint32_t id);
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
