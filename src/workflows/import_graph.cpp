#include "workflows/import_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "workflows/import_parts.h"
#include "workflows/sampling.h"

namespace tachy::workflows {
namespace {

constexpr int64_t kMostSteps = 1000, kMostTheirSteps = 10000;

bool saves(const std::string& type) {
  return type == "SaveVideo" || type == "SaveWEBM" || type == "SaveAnimatedWEBP";
}

// Reads one node that saves: the rate of its frames, how they are encoded, and the node that decodes them.
const Node* read_saver(Work& work, const Node& saver, double& fps) {
  const Node* frames = &saver;
  if (saver.type == "SaveVideo") {
    work.values.one_of(saver, "format", {"auto", "mp4"}),
        work.values.one_of(saver, "codec", {"auto", "h264"});
    frames = work.values.needed(saver, "video", "CreateVideo").node;
    if (work.values.linked(*frames, "audio"))
      refuse(*frames, "audio", "sound that is laid under a video is not read");
  } else if (saver.type == "SaveWEBM") {
    work.values.one_of(saver, "codec", {"vp9"});
    work.out.settings.encoding = {"webm", static_cast<int>(work.values.whole(saver, "crf", 0, 63)), ""};
  } else {
    work.note(saver, "images", "animated WebP is not written; give the output another ending");
  }
  fps = work.values.number(*frames, "fps", 0.1, 240);
  const Output decoded = work.values.needed(*frames, "images");
  const std::string& type = decoded.node->type;
  if (type != "VAEDecode" && type != "VAEDecodeTiled")
    refuse(*decoded.node, "",
           "no node of this kind is read between the VAE and the file, only VAEDecode and VAEDecodeTiled");
  if (type == "VAEDecodeTiled")
    work.note(*decoded.node, "tile_size", "frames are decoded whole, so nothing is blended at tiles' edges");
  return decoded.node;
}

// Several nodes may save one video.
const Node& read_savers(Work& work) {
  const Node *first = nullptr, *decoder = nullptr;
  double fps = 0;
  for (const auto& [id, node] : work.values.graph()) {
    if (!saves(node.type)) continue;
    double here = 0;
    const Node* decodes = read_saver(work, node, here);
    if (first && (decodes != decoder || here != fps))
      refuse(node, "",
             fmt::format("a job makes one video, and node {} {} saves another; mute or bypass one of them",
                         first->id, first->type));
    first = &node, decoder = decodes, fps = here;
  }
  check(decoder, ErrorCode::unsupported,
        "no node SaveVideo, SaveWEBM or SaveAnimatedWEBP is in the graph and switched on: there is no video "
        "to make");
  work.request().fps = fps;
  return *decoder;
}

double read_guidance(Work& work, const Node& sampler) {
  const double cfg = work.values.number(sampler, "cfg", 0, 100);
  if (cfg < 1)
    refuse(sampler, "cfg",
           fmt::format("guidance of less than 1 is not computed here; expected 1 to 100, got {}", cfg));
  return cfg;
}

// Says which of a schedule's steps a KSamplerAdvanced makes.
struct Steps {
  int64_t all = 0, begin = 0, end = 0;
};
Steps steps_of(Work& work, const Node& sampler) {
  Steps out;
  out.all = work.values.whole(sampler, "steps", 1, kMostSteps);
  out.begin = work.values.whole(sampler, "start_at_step", 0, kMostTheirSteps);
  out.end = std::min(work.values.whole(sampler, "end_at_step", 0, kMostTheirSteps), out.all);
  return out;
}

// Reads two samplers, of which the second goes on where the first one ends. Returns the first.
const Node& read_experts(Work& work, const Node& low, const Node& high) {
  const Values& v = work.values;
  v.one_of(high, "add_noise", {"enable"}), v.one_of(high, "return_with_leftover_noise", {"enable"});
  v.one_of(low, "add_noise", {"disable"}), v.one_of(low, "return_with_leftover_noise", {"disable"});
  const Steps before = steps_of(work, high), after = steps_of(work, low);
  if (after.all != before.all)
    refuse(low, "steps", fmt::format("expected {} as in node {}, got {}", before.all, high.id, after.all));
  if (before.begin != 0) refuse(high, "start_at_step", fmt::format("expected 0, got {}", before.begin));
  if (after.begin != before.end)
    refuse(low, "start_at_step",
           fmt::format("expected {}, where node {} ends, got {}", before.end, high.id, after.begin));
  if (after.end != after.all)
    refuse(low, "end_at_step", fmt::format("expected at least {}, got {}", after.all, after.end));
  const Sampling one = sampling_of(v, high), two = sampling_of(v, low);
  if (one.sampler != two.sampler || one.grid != two.grid)
    refuse(low, "sampler_name",
           fmt::format("both experts must have one sampler and one scheduler, as node {} has", high.id));
  for (const char* name : {"positive", "negative"})
    if (v.needed(low, name) != v.needed(high, name))
      refuse(low, name, fmt::format("both experts must have one prompt, that of node {}", high.id));
  work.request().guidance_2 = read_guidance(work, low);
  work.request().high_noise_steps = static_cast<int>(before.end);
  return high;
}

void read_experts_models(Work& work, const Node& high, const Node& low) {
  ModelChain one = read_model(work, high), two = read_model(work, low);
  if (one.shift != two.shift)
    refuse(low, "model",
           fmt::format("both experts must have one shift; {} is that of node {}, got {}", one.shift, high.id,
                       two.shift));
  work.out.settings.model = one.path, work.out.settings.parts["transformer_2"] = two.path;
  work.request().shift = one.shift;
  for (const std::string& lora : one.loras) work.request().loras.push_back(lora + "@high");
  for (const std::string& lora : two.loras) work.request().loras.push_back(lora + "@low");
}

void read_one_model(Work& work, const Node& sampler) {
  ModelChain chain = read_model(work, sampler);
  work.out.settings.model = chain.path, work.request().shift = chain.shift,
  work.request().loras = chain.loras;
}

// Reads the sampler that begins with noise.
void read_first_sampler(Work& work, const Node& sampler, bool alone) {
  VideoRequest& r = work.request();
  const bool advanced = sampler.type == "KSamplerAdvanced";
  r.steps = static_cast<int>(work.values.whole(sampler, "steps", 1, kMostSteps));
  r.guidance = read_guidance(work, sampler);
  r.seed = work.values.seed(sampler, advanced ? "noise_seed" : "seed");
  const Sampling sampling = sampling_of(work.values, sampler);
  r.sampler = sampling.sampler, r.grid = sampling.grid;
  if (!sampling.note.empty()) work.note(sampler, "sampler_name", sampling.note);
  if (!advanced) {
    const double denoise = work.values.number(sampler, "denoise", 0, 1);
    if (denoise != 1)
      refuse(sampler, "denoise", fmt::format("a job makes all of the steps; expected 1, got {}", denoise));
  } else if (alone) {
    work.values.one_of(sampler, "add_noise", {"enable"});
    const Steps steps = steps_of(work, sampler);
    if (steps.begin != 0) refuse(sampler, "start_at_step", fmt::format("expected 0, got {}", steps.begin));
    if (steps.end != steps.all)
      refuse(sampler, "end_at_step", fmt::format("expected at least {}, got {}", steps.all, steps.end));
  }
}

// Returns the sampler at the end of the graph, after which nothing but the VAE comes, and what cuts VACE's latents.
const Node& last_sampler(Work& work, const Node& decoder, const Node*& trim) {
  Output latents = work.values.needed(decoder, "samples");
  if (latents.node->type == "TrimVideoLatent" && latents.slot == 0) {
    trim = latents.node;
    latents = work.values.needed(*trim, "samples");
  }
  if ((latents.node->type != "KSampler" && latents.node->type != "KSamplerAdvanced") || latents.slot != 0)
    refuse(
        *latents.node, "",
        "no node of this kind is read before the VAE, only KSampler, KSamplerAdvanced and TrimVideoLatent");
  return *latents.node;
}

}  // namespace

Imported import_graph(const Graph& graph, const FindFile& find) {
  const Values values(graph);
  Imported out;
  Work work{values, find, out};
  const Node& decoder = read_savers(work);
  out.settings.parts["vae"] = read_vae(work, decoder);
  const Node* trim = nullptr;
  const Node& last = last_sampler(work, decoder, trim);
  Output latents = values.needed(last, "latent_image");
  const Node* first = &last;
  if (latents.node->type == "KSamplerAdvanced" && last.type == "KSamplerAdvanced") {
    first = &read_experts(work, last, *latents.node);
    latents = values.needed(*first, "latent_image");
  }
  read_first_sampler(work, *first, first == &last);
  check_trim(work, trim, *latents.node);
  const Prompts prompts = read_latents(work, *first, latents);
  if (first == &last)
    read_one_model(work, last);
  else
    read_experts_models(work, *first, last);
  VideoRequest& r = work.request();
  std::string encoder, other;
  r.prompt = read_prompt(work, prompts.positive, encoder);
  r.negative_prompt = read_prompt(work, prompts.negative, other);
  if (other != encoder) refuse(*prompts.negative.node, "clip", "both prompts must be encoded by one file");
  out.settings.parts["text_encoder"] = encoder;
  r.sinusoid = "diffusers";  // comfy/ldm/wan/model.py: float32
  return out;
}

}  // namespace tachy::workflows
