# The sources that deal with who asks from outside, and with other servers. libcurl is opened at run time (curl.cpp), only its
# header is needed.
set(outside_sources
  curl.cpp
  fetch_url.cpp
  gate.cpp
  hosts/far_events.cpp
  hosts/host_secret.cpp
  hosts/pass_on.cpp
  hosts/store.cpp
  keys.cpp
  links.cpp
  webhooks.cpp)
find_path(CURL_INCLUDE_DIR curl/curl.h)
