tachy_test(web_outside_test
  SOURCES fetch_url_test.cpp gate_test.cpp host_secret_test.cpp keys_test.cpp links_test.cpp store_test.cpp webhooks_test.cpp
  LINKS tachy_web_api)
