// The files of the server's page, which are part of the program: they are made from the folder page/ when it is built
// (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tachy::web_page {

struct PageFile {
  std::string_view name, type, text;  // "main.js", "text/javascript; charset=utf-8", the content
};

const PageFile* find_page_file(std::string_view name);  // null if there is no such file
std::span<const PageFile> page_files();

}  // namespace tachy::web_page
