// Every option of every command has a value that does not work, and the message for it names the option, the
// value and what would work. The table cannot have gaps: it is compared with what --help-all lists.
//
// A new option needs a row here (or, if no value can be wrong, a line in kAnyValueWorks with the reason).
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/isa.h"
#include "binary.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

struct BadValue {
  std::string command, option, value;
  int code;
  std::vector<std::string> says;       // what the message has besides the option and the value
  std::vector<std::string> more = {};  // further arguments
};

// Values with invalid UTF-8 are shown as the offset of the bad byte.
const std::string kNotUtf8 = "a\xff";

const std::string kBaseline = TACHY_SOURCE_DIR "/tests/baseline_performance.txt";
const std::string kPicture = golden("image_pipeline/first.png");
const std::string kGraph = TACHY_SOURCE_DIR "/tests/fuzz/corpus/workflow/api_text";
const std::string kLatents = golden("validate/vae-decode.safetensors");

// `generate` is run with a prompt and the tiny model, and the stages with the arguments that they need (see
// arguments()).
const std::vector<BadValue> kBadValues = {
    {"generate", "--prompt", kNotUtf8, 2, {"UTF-8", "byte 1"}},
    {"generate", "--prompt-file", "gone.txt", 3, {"cannot read"}},
    {"generate", "--negative-prompt", kNotUtf8, 2, {"UTF-8", "byte 1"}},
    {"generate", "--model", "no/such/model", 3, {"no such folder"}},
    {"generate", "--text-encoder", "gone.safetensors", 3, {"no such file"}},
    {"generate", "--vae", "gone.safetensors", 3, {"no such file"}},
    {"generate", "--image-encoder", "gone.safetensors", 3, {"no such file"}},
    {"generate", "--tokenizer", "gone.model", 3, {"no such file"}},
    {"generate", "--transformer-2", "gone.safetensors", 3, {"no such file"}},
    {"generate", "--output", "clip.avi", 5, {".mp4", ".webm", ".gif", ".png"}},
    {"generate", "--size", "64by32", 2, {"WIDTHxHEIGHT", "832x480"}},
    {"generate", "--width", "100", 2, {"96", "112"}},
    {"generate", "--height", "1.5", 2, {"whole number"}},
    {"generate", "--frames", "80", 2, {"77", "81"}},
    {"generate", "--fps", "-2", 2, {"0.1 to 240"}},
    {"generate", "--fps", "1e-300", 2, {"0.1 to 240"}},
    {"generate", "--fps", "241", 2, {"0.1 to 240"}},
    {"generate", "--crf", "99", 2, {"0", "51"}},
    {"generate", "--encode-speed", "turbo", 2, {"ultrafast", "veryfast", "medium", "veryslow"}},
    {"generate", "--preset", "turbo-2", 2, {"lightx2v-4", "fastwan-3", "accvid-10"}},
    {"generate", "--steps", "0", 2, {"1 to 1000"}},
    {"generate", "--guidance", "nan", 2, {"0 to 100"}},
    {"generate", "--high-noise-steps", "2", 2, {"one transformer", "leave it out"}},
    {"generate", "--guidance-2", "3", 2, {"one transformer", "leave it out"}},
    {"generate", "--shift", "-1", 2, {"above 0 to 100"}},
    {"generate", "--sampler", "ddim", 2, {"unipc", "euler", "dpm++", "lcm"}},
    {"generate", "--grid", "square", 2, {"diffusers", "original", "multitalk"}},
    {"generate", "--sinusoid", "cosine", 2, {"diffusers", "original"}},
    {"generate", "--seed", "-2", 2, {"0 to 18446744073709551615", "-1 draws one"}},
    {"generate", "--rng", "tpu", 2, {"cpu", "cuda"}},
    {"generate", "--rng-multiprocessors", "0", 2, {"1 to 1024"}},
    {"generate", "--max-sequence-length", "5000", 2, {"1 to 4096"}},
    {"generate", "--init-latents", "gone.safetensors", 3, {"existing file"}},
    {"generate", "--image", "gone.png", 3, {"existing file"}},
    {"generate", "--last-image", "gone.png", 3, {"existing file"}},
    {"generate", "--image-embeds", "gone.safetensors", 3, {"existing file"}},
    {"generate", "--image-fit", "squash", 2, {"stretch", "crop"}},
    {"generate", "--clip-preparation", "squash", 2, {"processor", "original"}},
    {"generate", "--video", "gone.mp4", 3, {"existing file"}},
    {"generate", "--strength", "0", 2, {"above 0 to 1"}},
    {"generate", "--control-video", "gone.mp4", 3, {"existing file"}},
    {"generate", "--mask-video", "gone.mp4", 3, {"existing file"}},
    {"generate", "--reference", "gone.png", 3, {"existing file"}},
    {"generate", "--reference-2", "gone.png", 3, {"existing file"}},
    {"generate", "--reference-3", "gone.png", 3, {"existing file"}},
    {"generate", "--reference-4", "gone.png", 3, {"existing file"}},
    {"generate", "--vace-strength", "0.5", 5, {"follows no control", "VACE"}},
    {"generate", "--outpaint", "8,0,0,0", 5, {"follows no control", "VACE"}},
    {"generate", "--keep", "0-4", 5, {"follows no control", "VACE"}},
    {"generate", "--audio", "gone.wav", 3, {"existing file"}},
    {"generate", "--audio-2", "gone.wav", 3, {"existing file"}},
    {"generate", "--speakers", "in-turns", 2, {"together", "one-after-the-other"}},
    {"generate", "--speaker-box", "0,0,8,8", 2, {"two speakers", "--audio-2"}},
    {"generate", "--speaker-mask", "gone.png", 3, {"existing file"}},
    {"generate", "--speaker-mask-2", "gone.png", 3, {"existing file"}},
    {"generate", "--audio-guidance", "-1", 2, {"0 to 100"}},
    {"generate", "--motion-frames", "0", 2, {"1 to 65533"}},
    {"generate", "--recipe", "soup", 2, {"infinitetalk", "wrapper"}},
    {"generate", "--color-correction", "1.5", 2, {"0 to 1"}},
    {"generate", "--infinitetalk", "gone.safetensors", 3, {"no such file"}},
    {"generate", "--audio-encoder", "gone", 2, {"audio branch"}},
    {"generate", "--state-every", "-1", 2, {"0 or more seconds"}},
    {"generate", "--save-latents", "nowhere/l.safetensors", 6, {"no folder"}},
    {"generate", "--ranks", "17", 2, {"1 to 16, got 17"}},
    {"generate", "--gpus", "two", 2, {"a number of GPUs", "got 'two'"}},
    {"generate", "--gpus", "0", 2, {"one GPU or more"}},
    {"generate", "--gpus", "0,", 2, {"a number of GPUs"}},
    {"generate", "--gpus", "1,0,1", 2, {"1 is there twice"}},
    {"generate", "--gpus", "999", 5, {"--gpus"}},
    {"generate", "--parallel", "ring=2", 2, {"is for 2 ranks", "--ranks"}},
    {"generate", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"generate", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"generate", "--dtype", "f16", 2, {"f32", "bf16"}},
    {"generate", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"generate", "--step-cache", "7", 2, {"0 (off) to 1"}},
    {"generate", "--step-cache-kind", "deepcache", 2, {"easycache", "taylorseer"}},
    {"generate", "--attention", "int4", 2, {"auto, bf16 or int8"}},
    {"generate", "--int8-keys", "some", 2, {"auto or all"}},
    {"generate", "--math", "fp4", 2, {"auto, bf16, fp8, int8 or tf32"}},
    {"generate", "--vae-math", "bf16", 2, {"auto, activations, fp8 or int8"}},
    {"generate", "--sparse-attention", "1.5", 2, {"0 (off) to 1"}},
    {"generate", "--sparse-chooser", "bottom-k", 2, {"top-k", "sliding-tile"}},
    {"generate", "--sparse-dense-steps", "-1", 2, {"0 to 1000"}},
    {"generate", "--windows", "round", 2, {"static", "looped"}},
    {"generate", "--window-frames", "4", 2, {"5 to 65536"}},
    {"generate", "--window-overlap", "-1", 2, {"0 to 65532"}},
    {"generate", "--window-stride", "0", 2, {"1 to 64"}},
    {"generate", "--window-mask", "square", 2, {"linear", "pyramid"}},
    {"generate", "--free-noise", "maybe", 2, {"on", "off"}},
    {"generate", "--riflex", "-1", 2, {"0 (off) to 512"}},
    {"generate", "--block", "-1", 2, {"0 (off) to 16384"}},
    {"generate", "--block-window", "-1", 2, {"0 (all) to 16384"}},
    {"generate", "--lora-mode", "sideways", 2, {"auto", "merge", "runtime"}},
    {"generate", "--lora-unmatched", "ignore", 2, {"warn", "error"}},
    {"generate", "--lora", "a.safetensors:1e9", 2, {"-100 to 100"}},
    {"generate", "--lora-dir", "gone", 3, {"no such folder"}},
    {"generate", "--profile", "nowhere/t.json", 6, {"no folder"}},
    {"generate", "--without", "fused-norm", 2, {"fused-norms", "few-keys", "op:implementation"}},
    {"generate", "--residual", "f64", 2, {"f32", "cuda"}},
    {"generate", "--gpu", "a100", 2, {"--plan"}},
    {"generate", "--max-vram", "plenty", 2, {"8GiB", "12G"}},
    {"generate", "--text-cache", "nowhere/cache", 6, {"no folder", "exists"}},
    {"generate", "--weights", "mmap", 2, {"auto", "packed", "mapped", "read"}},
    {"generate", "--preview", "nowhere/p.png", 6, {"no folder"}},
    {"generate", "--from", "gone.json", 3, {"cannot read"}},
    {"info", "--model", "no/such/model", 3, {"no such folder"}},
    {"info", "--text-encoder", "gone.safetensors", 3, {"no such file"}},
    {"info", "--vae", "gone.safetensors", 3, {"no such file"}},
    {"info", "--image-encoder", "gone.safetensors", 3, {"no such file"}},
    {"info", "--infinitetalk", "gone.safetensors", 3, {"no such file"}},
    {"info", "--audio-encoder", "gone", 2, {"audio branch"}},
    {"info", "--tokenizer", "gone.model", 3, {"no such file"}},
    {"info", "--transformer-2", "gone.safetensors", 3, {"no such file"}},
    {"info", "--width", "100", 2, {"96", "112"}},
    {"info", "--height", "tall", 2, {"whole number"}},
    {"info", "--frames", "80", 2, {"77", "81"}},
    {"info", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"import", "graph", "gone.json", 3, {"cannot read"}},
    {"import", "--models", "gone", 3, {"no folder"}, {kGraph}},
    {"import", "--input", "gone", 3, {"no folder"}, {kGraph}},
    {"import", "--output", "nowhere/job.json", 6, {"no folder"}, {kGraph}},
    {"lora", "lora", "/nowhere/a.safetensors", 3, {"no such file"}},
    {"lora", "--model", "no/such/model", 3, {"no such folder"}, {"a.safetensors"}},
    {"lora", "--text-encoder", "gone.safetensors", 3, {"no such file"}, {"a.safetensors"}},
    {"lora", "--vae", "gone.safetensors", 3, {"no such file"}, {"a.safetensors"}},
    {"lora", "--image-encoder", "gone.safetensors", 3, {"no such file"}, {"a.safetensors"}},
    {"lora", "--tokenizer", "gone.model", 3, {"no such file"}, {"a.safetensors"}},
    {"lora", "--infinitetalk", "gone.safetensors", 3, {"no such file"}, {"a.safetensors"}},
    {"lora", "--audio-encoder", "gone", 2, {"audio branch"}, {"a.safetensors"}},
    {"lora", "--transformer-2", "gone.safetensors", 3, {"no such file"}, {"a.safetensors"}},
    {"convert", "input", "/nowhere/model", 3, {"no such file"}, {"a.gguf", "--to", "gguf:Q8_0"}},
    {"convert", "output", model_path(), 2, {"is a folder"}, {model_path(), "--to", "single"}},
    {"convert", "--to", "fp16", 2, {"diffusers", "gguf:TYPE", "Q8_0"}, {model_path(), "a.gguf"}},
    {"convert", "--part", "vae", 2, {"transformer", "transformer_2"}, {model_path(), "a.gguf"}},
    {"convert", "--max-shard-size", "huge", 2, {"8GiB"}, {model_path(), "a.gguf"}},
    {"convert", "--threads", "5000", 2, {"0 to 1024"}, {model_path(), "a.gguf"}},
    {"convert", "--text-encoder", "gone.safetensors", 3, {"no such file"}, {model_path(), "a"}},
    {"convert", "--vae", "gone.safetensors", 3, {"no such file"}, {model_path(), "a"}},
    {"convert", "--image-encoder", "gone.safetensors", 3, {"no such file"}, {model_path(), "a"}},
    {"convert", "--tokenizer", "gone.model", 3, {"no such file"}, {model_path(), "a"}},
    {"convert", "--transformer-2", "gone.safetensors", 3, {"no such file"}, {model_path(), "a"}},
    {"stage", "name", "frobnicate", 2, {"tokenize", "text-encoder", "vae-decode"}},
    {"stage", "--model", "no/such/model", 3, {"no such"}, {"vae-decode"}},
    {"stage", "--in", "gone.safetensors", 3, {"no such file"}, {"vae-decode"}},
    {"stage", "--out", "nowhere/o.safetensors", 6, {"No such file"}, {"noise", "--shape", "4"}},
    {"stage", "--prompt", kNotUtf8, 2, {"UTF-8", "byte 1"}, {"tokenize"}},
    {"stage", "--max-sequence-length", "0", 2, {"1", "4096"}, {"tokenize"}},
    {"stage", "--sampler", "ddim", 2, {"unipc", "euler", "dpm++", "lcm"}, {"sampler"}},
    {"stage", "--grid", "square", 2, {"diffusers", "original", "multitalk"}, {"sampler"}},
    {"stage", "--steps", "1001", 2, {"1", "1000"}, {"sampler"}},
    {"stage", "--shift", "nan", 2, {"above 0"}, {"sampler"}},
    {"stage", "--seed", "1e3", 2, {"0 to 18446744073709551615"}, {"noise", "--shape", "4"}},
    {"stage", "--shape", "1,x", 2, {"whole numbers separated by commas"}, {"noise"}},
    {"stage", "--image", "gone.png", 3, {"no such file"}, {"fit-image", "--shape", "16,16"}},
    {"stage",
     "--image-fit",
     "squash",
     2,
     {"stretch", "crop"},
     {"fit-image", "--image", kPicture, "--shape", "8,8"}},
    {"stage",
     "--clip-preparation",
     "squash",
     2,
     {"processor", "original"},
     {"image-processor", "--image", kPicture}},
    {"stage", "--rng", "tpu", 2, {"cpu", "cuda"}, {"noise", "--shape", "4"}},
    {"stage", "--rng-multiprocessors", "0", 2, {"1 to 1024"}, {"noise", "--shape", "4", "--rng", "cuda"}},
    {"stage", "--infinitetalk", "gone.safetensors", 3, {"no such file"}, {"transformer"}},
    {"stage", "--sinusoid", "cosine", 2, {"diffusers", "original"}, {"transformer"}},
    {"stage", "--weights", "mmap", 2, {"packed", "mapped"}, {"vae-decode"}},
    {"stage", "--device", "gpu", 2, {"cpu", "cuda", "auto"}, {"noise", "--shape", "4"}},
    {"stage", "--threads", "-1", 2, {"0", "1024"}, {"vae-decode"}},
    {"stage", "--dtype", "f16", 2, {"f32", "bf16"}, {"vae-decode", "--in", kLatents}},
    {"stage",
     "--level",
     "warp",
     2,
     {"none", "safe", "aggressive", "extreme"},
     {"vae-decode", "--in", kLatents}},
    {"vae", "what", "frobnicate", 2, {"encode or decode"}, {kPicture}},
    {"vae", "input", "encode", 3, {"no such file"}, {"encode"}},
    {"vae", "--output", "nowhere/l.safetensors", 6, {"no folder"}, {"encode", kPicture}},
    {"vae", "--model", "no/such/model", 3, {"no such"}, {"encode", kPicture}},
    {"vae", "--size", "64by32", 2, {"WIDTHxHEIGHT", "832x480"}, {"encode", kPicture}},
    {"vae", "--frames", "0", 2, {"1 to 65536"}, {"encode", kPicture}},
    {"vae", "--image-fit", "squash", 2, {"stretch", "crop"}, {"encode", kPicture}},
    {"vae", "--fps", "-2", 2, {"above 0 to 1000"}, {"encode", kPicture}},
    {"vae", "--crf", "99", 2, {"0", "51"}, {"decode", kLatents}},
    {"vae", "--encode-speed", "turbo", 2, {"ultrafast", "veryslow"}, {"decode", kLatents}},
    {"vae", "--device", "gpu", 2, {"cpu", "cuda", "auto"}, {"encode", kPicture}},
    {"vae", "--dtype", "f16", 2, {"f32", "bf16"}, {"encode", kPicture}},
    {"vae", "--vae-math", "bf16", 2, {"auto, activations, fp8 or int8"}, {"encode", kPicture}},
    {"vae", "--threads", "5000", 2, {"0 to 1024"}, {"encode", kPicture}},
    {"world", "--prompt", kNotUtf8, 2, {"UTF-8", "byte 1"}},
    {"world", "--model", "no/such/model", 3, {"no such"}},
    {"world", "--image", "gone.png", 3, {"no such file"}},
    {"world", "--image-embeds", "gone.safetensors", 3, {"no such file"}},
    {"world", "--actions", "gone.json", 3, {"no such file"}},
    {"world", "--output", "clip.avi", 5, {".mp4", ".webm", ".gif", ".png"}},
    {"world", "--host", "two words", 2, {"an address or a name"}},
    {"world", "--port", "70000", 2, {"0 (any) to 65535"}},
    {"world", "--token", "short", 2, {"8 to 128 letters"}},
    {"world", "--frames", "0", 2, {"at least 1"}},
    {"world", "--seconds", "-2", 2, {"above 0"}},
    {"world", "--fps", "1000", 2, {"0.1 to 240"}},
    {"world", "--size", "64by32", 2, {"WIDTHxHEIGHT", "832x480"}},
    {"world", "--seed", "-2", 2, {"0 to 18446744073709551615", "-1 draws one"}},
    {"world", "--steps", "9", 2, {"1 to 4"}},
    {"world", "--shift", "-1", 2, {"0.01 to 100"}},
    {"world", "--window", "2", 2, {"3 (a block)"}},
    {"world", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"world", "--dtype", "f8", 2, {"f32", "bf16"}},
    {"world", "--vae-math", "bf16", 2, {"auto, activations, fp8 or int8"}},
    {"world", "--text-encoder", "gone.safetensors", 3, {"no such file"}},
    {"world", "--vae", "gone.safetensors", 3, {"no such file"}},
    {"world", "--image-encoder", "gone.safetensors", 3, {"no such file"}},
    {"world", "--tokenizer", "gone.model", 3, {"no such file"}},
    {"world", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"world", "--max-vram", "lots", 2, {"8GiB"}},
    {"world", "--threads", "5000", 2, {"0 to 1024"}},
    {"world", "--weights", "heavy", 2, {"packed", "mapped", "auto", "read"}},
    {"world", "--without", "attention:fast", 2, {"no implementation", "flash_sm90"}},
    {"world", "--profile", "nowhere/t.json", 6, {"no folder"}},
    {"world", "--crf", "99", 2, {"0", "51"}},
    {"world", "--encode-speed", "turbo", 2, {"ultrafast", "veryslow"}},
    {"validate", "--golden", "gone", 3, {"golden.json"}},
    {"validate", "--op", "frobnicate", 2, {"op:case:implementation"}},
    {"validate", "--mode", "guess", 2, {"ref", "bitwise", "canary"}},
    {"validate", "--cases", "huge", 2, {"tiny", "odd", "real"}},
    {"validate", "--max-gflop", "-1", 2, {"0"}},
    {"validate", "--seed", "-1", 2, {"0 to 18446744073709551615"}},
    {"validate", "--model", "no/such/model", 3, {"no such folder"}},
    {"validate", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"validate", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"validate", "--dtype", "f8", 2, {"f32", "bf16", "f16"}, {"--device", "cuda"}},
    {"validate", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"bench", "--output", "nowhere/b.json", 6, {"no folder"}},
    {"bench", "--vae-math", "bf16", 2, {"auto, activations, fp8 or int8"}},
    {"bench", "--compare", "gone.json", 3, {"cannot read"}},
    {"bench", "--model", "no/such/model", 3, {"no such folder"}},
    {"bench", "--blocks", "0", 2, {"1 to"}},
    {"bench", "--size", "64by32", 2, {"WIDTHxHEIGHT", "832x480"}},
    {"bench", "--window", "2", 2, {"3 (a block)"}, {"--blocks", "2"}},
    {"bench", "--steps", "9", 2, {"1 to 4"}, {"--blocks", "2"}},
    {"bench", "--profile", "nowhere/t.json", 6, {"no folder"}},
    {"bench", "--op", "frobnicate", 2, {"op:case:implementation"}},
    {"bench", "--cases", "huge", 2, {"tiny", "odd", "real"}},
    {"bench", "--report-card", "card.json", 2, {"about a GPU", "--device cuda"}, {"--device", "cpu"}},
    {"bench", "--rounds", "0", 2, {"1 to 1000"}},
    {"bench", "--seconds", "0", 2, {"above 0 to 60"}},
    {"bench", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"bench", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"bench", "--dtype", "f8", 2, {"f32", "bf16", "f16"}, {"--device", "cuda"}},
    {"bench", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"compare", "before", "gone.json", 3, {"cannot read"}, {"gone.json"}},
    {"compare", "after", "gone.json", 3, {"cannot read"}, {"gone.json"}},
    {"compare", "--model", "no/such/model", 3, {"no such folder"}, {kBaseline}},
    {"compare", "--relative", "0.5", 2, {"1 to 1000"}, {kBaseline, kBaseline}},
    {"compare", "--device", "gpu", 2, {"cpu", "cuda", "auto"}, {kBaseline, "--model", model_path()}},
    {"all", "--blocks", "0", 2, {"1 to"}},
    {"all", "--golden", "gone", 3, {"golden.json"}},
    {"all", "--output", "nowhere/b.json", 6, {"no folder"}},
    {"all", "--compare", "gone.json", 3, {"cannot read"}},
    {"all", "--model", "no/such/model", 3, {"no such folder"}},
    {"all", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"all", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"all", "--dtype", "f8", 2, {"f32", "bf16", "f16"}, {"--device", "cuda"}},
    {"all", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"doctor", "--level", "warp", 2, {"none", "safe", "aggressive", "extreme"}},
    {"doctor", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"doctor", "--dtype", "bf16", 2, {"GPU"}},
    {"doctor", "--model", "no/such/model", 3, {"no such folder"}},
    {"doctor", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"serve", "--gpus", "two", 2, {"a number of GPUs", "got 'two'"}},
    {"serve", "--host", "0.0.0.0", 2, {"other machines", "--keys"}},
    {"serve", "--port", "70000", 2, {"0 to 65535"}},
    {"serve", "--model", "sprites", 2, {"NAME=PATH"}},
    {"serve", "--lora-dir", "gone", 3, {"no such folder"}},
    {"serve", "--files", kPicture, 6, {"not a folder"}},
    {"serve", "--device", "gpu", 2, {"cpu", "cuda", "auto"}},
    {"serve", "--max-vram", "lots", 2, {"8GiB"}},
    {"serve", "--threads", "5000", 2, {"0 (all) to 1024"}},
    {"serve", "--weights", "heavy", 2, {"packed", "mapped", "auto", "read"}},
    {"serve", "--keys", "gone", 3, {"no such file"}},
    {"serve", "--new-key", "alice", 2, {"--keys"}},
    {"serve", "--public-name", "http://video.example.org", 2, {"a name such as"}},
    {"serve", "--allow-urls", "http://images.example.org", 2, {"hosts such as"}},
    {"serve", "--max-upload", "lots", 2, {"8GiB"}},
    {"serve", "--queue", "0", 2, {"1 to 100000"}},
    {"serve", "--key-queue", "-1", 2, {"0 to 100000"}},
    {"serve", "--max-pixel-frames", "-1", 2, {"0 to"}},
    {"serve", "--at-once", "65", 2, {"0 to 64"}},
    {"serve", "--keep-days", "-1", 2, {"0 to 36500"}},
    {"serve", "--keep-bytes", "lots", 2, {"8GiB"}},
    {"serve", "--webhook", "ftp://example.org", 2, {"http://"}},
    {"serve", "--webhook-secret-file", "gone", 3, {"no such file"}},
    {"serve", "--database", "mysql", 2, {"postgresql://USER@HOST:5432/NAME"}},
    {"serve", "--role", "queen", 2, {"api, worker or both"}},
    {"serve", "--name", "one", 2, {"--database"}},
    {"serve", "--advertise", "one:80", 2, {"--database"}},
    {"serve", "--store", "s3://videos", 2, {"--database"}},
    {"serve", "--cluster-secret-file", "gone", 3, {"no such file"}},
};

// Maps "command --option" to the reason why no value of the option can be wrong.
const std::map<std::string, std::string> kAnyValueWorks = {};

// Returns a command's options that take a value, by their first long name, and its positional arguments by
// their names.
class BadValues : public CliTest {
 protected:
  const std::vector<std::string>& options(const std::string& command) {
    std::vector<std::string>& out = known_[command];
    if (!out.empty()) return out;
    std::istringstream help(run({command, "--help-all"}).out);
    bool positionals = false;
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with(" ")) positionals = line.starts_with("Positionals");
      static const std::regex option("^  (?:-\\w,)?(--[\\w-]+)(?:,--?[\\w-]+)* (TEXT|INT|UINT|FLOAT|\\[)");
      static const std::regex positional("^  (\\w+) TEXT");
      std::smatch match;
      if (positionals ? std::regex_search(line, match, positional) : std::regex_search(line, match, option))
        out.push_back(match[1]);
    }
    // A positional argument that is also an option is covered by the option.
    std::erase_if(out, [&](const std::string& o) {
      return !o.starts_with("--") && std::find(out.begin(), out.end(), "--" + o) != out.end();
    });
    return out;
  }

  std::map<std::string, std::vector<std::string>> known_;

  std::vector<std::string> arguments(const BadValue& bad) {
    std::vector<std::string> args{bad.command};
    args.insert(args.end(), bad.more.begin(), bad.more.end());
    const auto needs = [&](const char* option, const std::string& value) {
      if (bad.option != option) args.insert(args.end(), {option, value});
    };
    if (bad.command == "generate") {
      // Two prompts make two videos.
      if (bad.option != "--prompt" && bad.option != "--prompt-file") args.push_back("x");
      needs("--output", "a.mp4");
    }
    if (bad.command == "world") {
      if (bad.option != "--prompt") args.push_back("x");
      if (bad.option != "--seconds") needs("--frames", "9");
      needs("--output", "a.mp4"), needs("--size", "32x16");
    }
    if (bad.command == "stage") needs("--out", "out.safetensors");
    if (bad.command == "vae")
      needs("--output", !bad.more.empty() && bad.more[0] == "decode" ? "a.mp4" : "out.safetensors");
    if (bad.command == "convert" && bad.option.starts_with("--"))
      needs("--to", bad.more[1] == "a" ? "diffusers" : "gguf:Q8_0");
    else if (bad.command != "compare" && bad.command != "doctor" && bad.command != "convert" &&
             bad.command != "import")
      needs("--model", model_path());
    if (bad.option.starts_with("--"))
      args.push_back(bad.option + "=" + bad.value);
    else
      args.insert(args.begin() + 1, bad.value);
    return args;
  }
};

TEST_F(BadValues, AreRefusedWithOptionValueAndWhatWouldWork) {
  for (const BadValue& bad : kBadValues) {
    const Done done = run(arguments(bad));
    const std::string what = bad.command + " " + bad.option + "=" + bad.value + ": " + done.err;
    EXPECT_EQ(done.code, bad.code) << what;
    std::vector<std::string> says = bad.says;
    if (bad.option.starts_with("--")) says.push_back(bad.option);
    if (bad.value != kNotUtf8) says.push_back(bad.value);
    for (const std::string& text : says) EXPECT_THAT(done.err, HasSubstr(text)) << what;
    EXPECT_TRUE(files().empty()) << what << " left files behind";
  }
}

// Options that may repeat: each further value adds one.
const std::set<std::string> kRepeatable = {"--prompt",       "--seed",    "--golden",
                                           "--lora",         "--audio",   "--speaker-box",
                                           "--speaker-mask", "--without", "--reference"};

// The last value counts: one before it, whether it works or not, changes nothing.
TEST_F(BadValues, OfAnOptionGivenTwiceTheLastCounts) {
  for (const BadValue& bad : kBadValues) {
    if (!bad.option.starts_with("--") || kRepeatable.contains(bad.option)) continue;
    if (std::string_view(bad.command) == "serve" && bad.option == "--model")
      continue;  // it names one model of several
    std::vector<std::string> args = arguments(bad);
    args.insert(args.end() - 1, bad.option + (bad.option == "--weights" ? "=packed" : "=1"));
    const Done done = run(args);
    const std::string what = testing::PrintToString(args) + ": " + done.err;
    EXPECT_EQ(done.code, bad.code) << what;
    if (bad.value != kNotUtf8) EXPECT_THAT(done.err, HasSubstr(bad.value)) << what;
    for (const std::string& text : bad.says) EXPECT_THAT(done.err, HasSubstr(text)) << what;
  }
}

// For two people a third sound is refused, and so is a second sound that is given twice.
TEST_F(BadValues, ThreeSoundsAreTooMany) {
  for (const std::string option : {"--audio", "--speaker-mask"})
    for (const std::string& third : {option, option + "-2"}) {
      const Done done =
          run({"talk", "--photo", "a.png", "--audio", "x.wav", option, "a", option, "b", third, "c"});
      EXPECT_EQ(done.code, 2);
      EXPECT_THAT(done.err, testing::AllOf(HasSubstr(option), HasSubstr("at most two")));
    }
}

TEST_F(BadValues, EveryOptionHasARow) {
  const auto all = commands();
  ASSERT_THAT(all, testing::IsSupersetOf({"generate", "info", "stage"}));
  size_t found = 0;
  EXPECT_EQ(options("talk"), options("generate"));  // both commands have the same options
  for (const std::string& command : all) {
    if (command == "talk") continue;
    for (const std::string& option : options(command)) {
      ++found;
      const bool row = std::any_of(kBadValues.begin(), kBadValues.end(), [&](const BadValue& bad) {
        return bad.command == command && bad.option == option;
      });
      EXPECT_TRUE(row || kAnyValueWorks.contains(command + " " + option))
          << "tests/unit/cli/bad_values_test.cpp has no bad value for " << command << " " << option;
    }
  }
  std::set<std::string> with_rows;
  for (const BadValue& bad : kBadValues) with_rows.insert(bad.command + " " + bad.option);
  EXPECT_GE(found, with_rows.size() - kAnyValueWorks.size())
      << "the options of --help-all were not all understood";
  for (const BadValue& bad : kBadValues) {
    const auto& known = options(bad.command);
    EXPECT_TRUE(std::find(known.begin(), known.end(), bad.option) != known.end())
        << bad.command << " has no option " << bad.option;
  }
}

// TACHY_ISA is an option of every command: an unknown set and one that this CPU does not have are refused
// alike.
TEST_F(BadValues, InstructionSetsThatAreNoneOrNotOfThisCpu) {
  const char* const set = std::getenv("TACHY_ISA");
  const std::string before = set ? set : "";
  for (const std::string isa : {"avx1024", "sse4", "avx2", "avx512", "native"}) {
    bool has = true;
    std::string why;
    try {
      isa_named(isa, "TACHY_ISA");
    } catch (const Error& e) {
      has = false, why = e.message();
    }
    EXPECT_FALSE(has && isa == "avx1024");
    setenv("TACHY_ISA", isa.c_str(), 1);
    const std::vector<std::vector<std::string>> commands{
        generate({"x", "--steps", "1", "--frames", "1", "-o", "a.png"}), {"info", model_path()}};
    for (const auto& args : commands) {
      const auto files_before = files();
      const Done done = run(args);
      EXPECT_EQ(done.code, has ? 0 : 2) << args[0] << ": " << done.err;
      if (has) continue;
      EXPECT_EQ(done.err, "tachyscope: " + why + "\n");
      EXPECT_EQ(files(), files_before);
    }
  }
  set ? setenv("TACHY_ISA", before.c_str(), 1) : unsetenv("TACHY_ISA");
}

TEST_F(BadValues, NumbersThatAreNone) {
  for (const char* option : {"--width", "--steps", "--threads", "--crf", "--rng-multiprocessors"}) {
    for (const char* value : {"many", "5.5", "", "99999999999999999999", "0x10", "1e3", "7 8"}) {
      const Done done = run(generate({"x", std::string(option) + "=" + value}));
      EXPECT_EQ(done.code, 2) << option << "=" << value << done.err;
      EXPECT_THAT(done.err, HasSubstr(option)) << value;
    }
  }
  for (const char* option : {"--guidance", "--guidance-2", "--shift", "--fps"}) {
    for (const char* value : {"high", "1,5", "", "inf", "nan", "1e999", "--1"}) {
      const Done done = run(generate({"x", std::string(option) + "=" + value}));
      EXPECT_EQ(done.code, 2) << option << "=" << value << done.err;
      EXPECT_THAT(done.err, HasSubstr(option)) << value;
    }
  }
}

}  // namespace
}  // namespace tachy::test
