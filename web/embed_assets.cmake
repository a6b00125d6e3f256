# cmake -DFILES=a;b;c -DOUT=web_assets.cc -P embed_assets.cmake
# Writes text files into a C++ file as raw string literals; web_assets.h declares what it defines.
set(content_type_html "text/html; charset=utf-8")
set(content_type_css "text/css; charset=utf-8")
set(content_type_js "text/javascript; charset=utf-8")
set(content_type_svg "image/svg+xml")

set(entries "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "^.*\\." "" extension ${name})
  if(NOT DEFINED content_type_${extension})
    message(FATAL_ERROR "${file}: no content type is known for .${extension}")
  endif()
  file(READ ${file} body)
  if(body MATCHES "\\)~page\"")
    message(FATAL_ERROR "${file}: contains the end mark of a raw string literal")
  endif()
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND entries "    {\"${path}\", \"${content_type_${extension}}\", R\"~page(${body})~page\"},\n")
endforeach()

file(WRITE ${OUT} "// Made by web/embed_assets.cmake.
#include \"web/web_assets.h\"

namespace antiphon::web {

std::span<const Asset> Assets() {
  static constexpr Asset kAssets[] = {
${entries}  };
  return kAssets;
}

}  // namespace antiphon::web
")
