// Tests the store of finished videos: its addresses, the signatures (those that botocore 1.44 makes), and what becomes of
// a store that does not answer as it should. The whole is tried against a stand-in (tests/serve/store.py).
#include "web_api/hosts/store.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text_file.h"
#include "small_server.h"
#include "temporary_folder.h"

namespace tachy::web_api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHash = "72bd93d97bc35cb853ead2ff8cf097b9bddd2ddec759521ee5c0e6c9352863d6";

S3Options options_at(const std::string& endpoint, const std::string& session = "") {
  return {.bucket = "videos",
          .prefix = "a b",
          .endpoint = endpoint,
          .region = "eu-central-1",
          .key_id = "AKIDEXAMPLE",
          .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
          .session = session,
          .now_s = [] { return int64_t{1'795'820'709}; }};
}

TEST(S3Signature, IsTheOneOfOtherClients) {
  const auto headers = [](const std::string& session) {
    return s3_headers(options_at("", session), "PUT", "store.example:9000", "/videos/a%20b/video_1/video.mp4",
                      kHash);
  };
  EXPECT_THAT(
      headers(""),
      ElementsAre(
          "x-amz-date: 20261127T230509Z", "x-amz-content-sha256: " + kHash,
          "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261127/eu-central-1/s3/aws4_request, "
          "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
          "Signature=51c62ccdb77c37181cfedbd0d305cfd67e70c68e0696e877c530e99f8996cd99"));
  const auto with = headers("a-session-token");
  ASSERT_EQ(with.size(), 4u);
  EXPECT_THAT(with[2], HasSubstr("7e321a260d1715c7b15e346cbb5335c42454ae0695f14bd09774ec0071d3f242"));
  EXPECT_EQ(with[3], "x-amz-security-token: a-session-token");
}

TEST(S3Address, IsReadWithTheEnvironment) {
  for (const char* name : {"AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"}) unsetenv(name);
  setenv("AWS_ACCESS_KEY_ID", "id", 1), setenv("AWS_SECRET_ACCESS_KEY", "key", 1);
  S3Options options = s3_options("s3://videos/of/this/");
  EXPECT_EQ(options.bucket, "videos");
  EXPECT_EQ(options.prefix, "of/this");
  EXPECT_EQ(options.endpoint, "https://s3.us-east-1.amazonaws.com");
  setenv("AWS_ENDPOINT_URL", "http://minio:9000/", 1);
  EXPECT_EQ(s3_options("s3://videos").endpoint, "http://minio:9000");
  for (const char* bad : {"videos", "s3://", "s3://Videos", "s3://a_b/c", "https://videos"})
    EXPECT_THROW(s3_options(bad), Error) << bad;
  setenv("AWS_ENDPOINT_URL", "minio:9000", 1);
  EXPECT_THROW(s3_options("s3://videos"), Error);
  unsetenv("AWS_ENDPOINT_URL"), unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_THROW(s3_options("s3://videos"), Error);
}

class Store : public InTemporaryFolder {};

TEST_F(Store, SendsAndFetchesFiles) {
  std::string last;
  SmallServer server([&](const std::string& request) {
    last = request;
    if (request.starts_with("GET /videos/a%20b/video_1/gone"))
      return std::string("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    if (request.starts_with("DELETE")) return std::string("HTTP/1.1 204 Gone\r\n\r\n");
    return std::string("HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbytes");
  });
  const S3Store store(options_at("http://127.0.0.1:" + std::to_string(server.port())));
  store.put("video_1", "video.mp4", write("video.mp4", "not really a video"));
  EXPECT_TRUE(last.starts_with("PUT /videos/a%20b/video_1/video.mp4 HTTP")) << last;
  EXPECT_THAT(last, HasSubstr("x-amz-content-sha256: " + kHash));
  EXPECT_TRUE(last.ends_with("\r\n\r\nnot really a video")) << last;
  EXPECT_TRUE(store.get("video_1", "video.mp4", folder_ / "got"));
  EXPECT_EQ(read_text_file(folder_ / "got", 100), "bytes");
  EXPECT_FALSE(store.get("video_1", "gone", folder_ / "gone"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "gone"));
  store.remove("video_1", "video.mp4");
  EXPECT_TRUE(last.starts_with("DELETE /videos/a%20b/video_1/video.mp4")) << last;
}

TEST_F(Store, IsAskedAgainWhenItFails) {
  int left = 1, asked = 0;
  SmallServer server([&](const std::string&) {
    ++asked;
    return std::string(left-- > 0 ? "HTTP/1.1 503 Later" : "HTTP/1.1 200 Fine") +
           "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  const S3Store store(options_at("http://127.0.0.1:" + std::to_string(server.port())));
  const std::filesystem::path file = write("video.mp4", "x");
  store.put("video_1", "video.mp4", file);
  EXPECT_EQ(asked, 2);
  left = 100;
  EXPECT_THROW(store.put("video_1", "video.mp4", file), Error);
  EXPECT_THROW(store.put("video_1", "video.mp4", folder_ / "none"), Error);
}

}  // namespace
}  // namespace tachy::web_api
