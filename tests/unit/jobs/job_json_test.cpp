// Tests a job as JSON: reading it back gives the same job, it contains no path of a machine, and any other
// JSON is refused.
#include "jobs/job_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tachy::jobs {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

JobSpec full_job() {
  JobSpec job;
  VideoRequest& r = job.settings.request;
  r.prompt = "a red cat", r.steps = 7, r.seed = 11, r.guidance = 4.5, r.level = "aggressive";
  r.loras = {"/home/somebody/loras/follow.safetensors:0.8@high", "loras/plain", "/x/odd:name.safetensors"};
  job.settings.model = "/models/Wan2.1-T2V-14B-Diffusers/";
  job.settings.parts["vae"] = "/models/vae/wan_2.1_vae.safetensors";
  job.settings.device = "cuda";
  job.settings.inputs["image"] = {"/home/somebody/cat.png", std::string(64, 'a')};
  job.output = "/home/somebody/videos/cat.mp4";
  job.named = false, job.drawn = true, job.crf = 20, job.encode_speed = "fast", job.streamed = true;
  job.resume = true, job.state_every = 2.5, job.preview = "/tmp/p.png", job.save_latents = "l.safetensors";
  return job;
}

std::string in_folder(const std::string& field, const std::string& name, const std::string&) {
  return "/here/" + field + "/" + name;
}

TEST(JobJson, ComesBackAsItWas) {
  const JobSpec job = full_job();
  std::vector<std::string> hashes;
  const JobSpec back =
      job_of_json(to_json(job), [&](const auto& field, const auto& name, const auto& sha256) {
        if (!sha256.empty()) hashes.push_back(field + " " + sha256);
        return in_folder(field, name, sha256);
      });
  EXPECT_THAT(hashes, ElementsAre("image " + std::string(64, 'a')));
  const VideoRequest& r = back.settings.request;
  EXPECT_EQ(r.prompt, "a red cat");
  EXPECT_EQ(r.steps, 7);
  EXPECT_EQ(r.seed, 11U);
  EXPECT_EQ(r.guidance, 4.5);
  EXPECT_THAT(r.loras, ElementsAre("/here/loras/follow.safetensors:0.8@high", "/here/loras/plain",
                                   "/here/loras/odd:name.safetensors"));
  EXPECT_EQ(back.settings.model, "/here/model/Wan2.1-T2V-14B-Diffusers");
  EXPECT_EQ(back.settings.parts.at("vae"), "/here/vae/wan_2.1_vae.safetensors");
  EXPECT_EQ(back.settings.inputs.at("image").path, "/here/image/cat.png");
  EXPECT_EQ(back.settings.inputs.at("image").sha256, std::string(64, 'a'));
  EXPECT_EQ(back.output, "cat.mp4");
  EXPECT_FALSE(back.named);
  EXPECT_TRUE(back.drawn && back.streamed && back.resume);
  EXPECT_EQ(back.crf, 20);
  EXPECT_EQ(back.encode_speed, "fast");
  EXPECT_EQ(back.state_every, 2.5);
  EXPECT_EQ(back.preview, "p.png");
  EXPECT_EQ(back.save_latents, "l.safetensors");
  // Writing the job again gives the same JSON, except for where files are.
  EXPECT_EQ(to_json(back), to_json(job));
}

TEST(JobJson, TellsNoPath) {
  const std::string text = to_json(full_job()).dump();
  for (const char* part : {"/home", "/models", "/tmp", "/x", "somebody", "loras/"})
    EXPECT_THAT(text, Not(HasSubstr(part)));
}

std::string refusal(const json& job, ErrorCode code = ErrorCode::corrupt) {
  try {
    job_of_json(job, in_folder);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  return "accepted";
}

TEST(JobJson, NamesThatAreWaysAreRefused) {
  const json good = to_json(full_job());
  ASSERT_EQ(refusal(good), "accepted");
  for (const char* name : {"../cat.png", "/etc/passwd", "..", ".", "a/b", "a\\b"}) {
    for (const char* key : {"model", "vae", "image"}) {
      json bad = good;
      bad[key] = name;
      EXPECT_THAT(refusal(bad), HasSubstr(key)) << name;
    }
    json bad = good;
    bad["loras"] = {std::string(name) + ":1@low"};
    EXPECT_THAT(refusal(bad), HasSubstr("loras")) << name;
    for (const char* key : {"output", "preview", "save_latents"}) {
      json other = good;
      other["job"][key] = name;
      EXPECT_THAT(refusal(other), HasSubstr(key)) << name;
    }
  }
}

TEST(JobJson, ValuesOfAnotherKindAreRefused) {
  const json good = to_json(full_job());
  const auto with = [&](const char* key, json value) {
    json bad = good;
    bad["job"][key] = std::move(value);
    return bad;
  };
  EXPECT_THAT(refusal(with("named", 1)), HasSubstr("'named'"));
  EXPECT_THAT(refusal(with("crf", "20")), HasSubstr("'crf'"));
  EXPECT_THAT(refusal(with("crf", 20.5)), HasSubstr("'crf'"));
  EXPECT_THAT(refusal(with("encode_speed", json::array())), HasSubstr("'encode_speed'"));
  EXPECT_THAT(refusal(with("state_every", nullptr)), HasSubstr("'state_every'"));
  EXPECT_THAT(refusal(with("output", 3)), HasSubstr("'output'"));
  json none = good;
  none.erase("job");
  EXPECT_THAT(refusal(none), HasSubstr("no object 'job'"));
  json steps = good;
  steps["num_inference_steps"] = "many";
  EXPECT_THAT(refusal(steps), HasSubstr("num_inference_steps"));
  EXPECT_THAT(refusal(json::array(), ErrorCode::invalid_argument), HasSubstr("the job"));
}

}  // namespace
}  // namespace tachy::jobs
