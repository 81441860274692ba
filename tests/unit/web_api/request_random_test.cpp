// Tests that whatever is in a body, the answer is a job or an error of the caller's, which can be written as JSON.
#include <random>

#include "field_case.h"
#include "web_api/fields/field_names.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

class RandomRequests : public FieldCase {
 protected:
  size_t below(size_t count) { return random_() % count; }

  std::string text() {
    static const std::string some[] = {"",
                                       "5",
                                       "-1",
                                       "1e999",
                                       "nan",
                                       "0x10",
                                       "true",
                                       "null",
                                       "[]",
                                       "{}",
                                       "[[[[",
                                       "{\"a\":",
                                       "data:image/png;base64,aaaa",
                                       "data:,",
                                       "http://127.0.0.1/",
                                       "../../x",
                                       "film",
                                       "lightx2v-4",
                                       "64x64",
                                       "9x9x9",
                                       "832x",
                                       "\xff\xfe",
                                       std::string("a\0b", 3),
                                       "🐈",
                                       "{\"name\":\"film\",\"strength\":1e308}",
                                       "18446744073709551616",
                                       "1,2,3,4"};
    return some[below(std::size(some))];
  }
  std::string name() {
    static const std::string odd[] = {"",
                                      "[",
                                      "]",
                                      "[]",
                                      "__proto__",
                                      "a[b]",
                                      "loras[][name]",
                                      "loras[][strength]",
                                      "loras[0][name]",
                                      "extra_params[frames]",
                                      "extra_params",
                                      "input_reference[image_url]",
                                      "x\"y",
                                      "\xc3"};
    const auto& fields = api_fields();
    if (below(4) == 0) return odd[below(std::size(odd))];
    const ApiField& field = fields[below(fields.size())];
    return below(3) == 0 && !field.aliases.empty() ? field.aliases[0] : field.name;
  }
  json value(int depth) {
    switch (below(depth > 3 ? 5 : 7)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<int64_t>(random_()) >> below(64);
      case 3:
        return std::ldexp(double(random_()), int(below(2000)) - 1000);
      case 4: {
        std::string some = text();
        return find_if(some.begin(), some.end(), [](char c) { return c < 0; }) == some.end() ? json(some)
                                                                                             : json("ü");
      }
      case 5: {
        json list = json::array();
        for (size_t i = below(3); i > 0; --i) list.push_back(value(depth + 1));
        return list;
      }
      default: {
        json object = json::object();
        static const char* const keys[] = {"name", "strength", "expert", "image_url",
                                           "file", "seed",     "frames", "prompt"};
        for (size_t i = below(3); i > 0; --i) object[keys[below(std::size(keys))]] = value(depth + 1);
        return object;
      }
    }
  }
  // Returns whether there was a job.
  bool expect_answer(const http::Request& request, const json* base = nullptr) {
    try {
      const JobRequest job = parse(request, base);
      EXPECT_NO_THROW(job.given.dump());
      EXPECT_FALSE(job.fingerprint.empty());
      return true;
    } catch (const ApiError& e) {
      EXPECT_TRUE(e.status() == 400 || e.status() == 403 || e.status() == 404 || e.status() == 415 ||
                  e.status() == 422)
          << e.message;
      EXPECT_FALSE(e.message.empty());
      EXPECT_LT(e.message.size(), 1000U);
      EXPECT_LT(e.param.size(), 300U);
      EXPECT_NO_THROW(json(e.message).dump());
      EXPECT_NO_THROW(json(e.param).dump());
    }
    return false;
  }

  std::mt19937_64 random_{41};
};

TEST_F(RandomRequests, OfParts) {
  int jobs = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::pair<std::string, std::string>> parts = {{"prompt", "a cat"}};
    for (size_t n = below(4); n > 0; --n) parts.emplace_back(name(), text());
    http::Request request = form(parts);
    if (below(4) == 0) request.parts.back().file = spooled(text());
    jobs += expect_answer(request);
  }
  EXPECT_GT(jobs, 200);
  EXPECT_LT(jobs, 3800);
}

TEST_F(RandomRequests, OfJson) {
  int jobs = 0;
  for (int i = 0; i < 4000; ++i) {
    json body = {{"prompt", "a cat"}};
    for (size_t n = below(3); n > 0; --n) {
      const std::string key = name();
      if (key != "\xc3") body[key] = value(0);
    }
    const json base = {{"prompt", "a"}, {"size", "64x64"}, {"seconds", 1}};
    jobs += expect_answer(json_request(body), below(2) == 0 ? &base : nullptr);
  }
  EXPECT_GT(jobs, 200);
}

TEST_F(RandomRequests, OfBytes) {
  const std::string whole =
      R"({"prompt":"a cat","seed":7,"loras":[{"name":"film","strength":0.5}],"size":"64x64"})";
  for (int i = 0; i < 4000; ++i) {
    std::string text = whole;
    for (size_t n = 1 + below(3); n > 0; --n) text[below(text.size())] = static_cast<char>(random_());
    expect_answer(json_text_request(text.substr(0, below(8) == 0 ? below(text.size()) : text.size())));
  }
}

}  // namespace
}  // namespace tachy::web_api
