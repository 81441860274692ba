// The page's own files, which are part of the program: made of the folder page/ when it is built (embed.cmake).
#pragma once

#include <string_view>

namespace tachy::serve {

struct PageFile {
  std::string_view name, type, text;  // "main.js", "text/javascript; charset=utf-8", what is in it
};

const PageFile* find_page_file(std::string_view name);  // null: there is none

}  // namespace tachy::serve
