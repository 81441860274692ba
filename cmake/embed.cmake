# Writes a C++ file that holds the files of a page, for a room whose page_files.h declares PageFile, find_page_file and page_files:
#   cmake -DOUT=… -DFOLDER=… "-DNAMES=index.html,main.js" -DROOM=serve -P embed.cmake
string(REPLACE "," ";" NAMES "${NAMES}")
set(text "// Made of src/${ROOM}/page by embed.cmake.\n#include \"${ROOM}/page_files.h\"\n\nnamespace tachy::${ROOM} {\nnamespace {\n\n")
set(table "")
set(index 0)
foreach(name ${NAMES})
  file(READ "${FOLDER}/${name}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
  if(name MATCHES "\\.html$")
    set(type "text/html; charset=utf-8")
  elseif(name MATCHES "\\.css$")
    set(type "text/css; charset=utf-8")
  elseif(name MATCHES "\\.js$")
    set(type "text/javascript; charset=utf-8")
  else()
    message(FATAL_ERROR "embed.cmake: what type has ${name}?")
  endif()
  string(APPEND text "constexpr unsigned char kFile${index}[] = {${hex}};\n")
  string(APPEND table "    {\"${name}\", \"${type}\", {reinterpret_cast<const char*>(kFile${index}), ${bytes}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND text "\nconst PageFile kFiles[] = {\n${table}};\n\n}  // namespace\n\n"
  "const PageFile* find_page_file(std::string_view name) {\n"
  "  for (const PageFile& file : kFiles)\n    if (file.name == name) return &file;\n  return nullptr;\n}\n\n"
  "std::span<const PageFile> page_files() { return kFiles; }\n\n"
  "}  // namespace tachy::${ROOM}\n")
file(WRITE "${OUT}" "${text}")
