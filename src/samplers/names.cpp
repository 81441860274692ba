// The names of samplers and grids in the spellings that users of other programs know.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

// Removes separators and capitals, so that "UniPC", "uni_pc" and "uni-pc" are one name; '+' is kept.
std::string squeeze(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '+')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct Alias {
  std::string_view name;
  SamplerKind kind;
};

constexpr Alias kAliases[] = {
    {"unipc", SamplerKind::unipc},
    {"unipcmultistep", SamplerKind::unipc},
    {"unipcmultistepscheduler", SamplerKind::unipc},
    {"flowunipc", SamplerKind::unipc},
    {"flowunipcmultistepscheduler", SamplerKind::unipc},
    {"euler", SamplerKind::euler},
    {"floweuler", SamplerKind::euler},
    {"flowmatcheuler", SamplerKind::euler},
    {"flowmatcheulerdiscrete", SamplerKind::euler},
    {"flowmatcheulerdiscretescheduler", SamplerKind::euler},
    {"dpm++", SamplerKind::dpmpp},
    {"dpm++2m", SamplerKind::dpmpp},
    {"dpmpp", SamplerKind::dpmpp},
    {"dpmpp2m", SamplerKind::dpmpp},
    {"dpmsolver", SamplerKind::dpmpp},
    {"dpmsolver++", SamplerKind::dpmpp},
    {"dpmsolvermultistep", SamplerKind::dpmpp},
    {"dpmsolvermultistepscheduler", SamplerKind::dpmpp},
    {"flowdpmsolvermultistepscheduler", SamplerKind::dpmpp},
    {"dpm++sde", SamplerKind::dpmpp_sde},
    {"dpmppsde", SamplerKind::dpmpp_sde},
    {"dpm++2msde", SamplerKind::dpmpp_sde},
    {"dpmpp2msde", SamplerKind::dpmpp_sde},
    {"sdedpmsolver++", SamplerKind::dpmpp_sde},
    {"lcm", SamplerKind::lcm},
    {"flowmatchlcm", SamplerKind::lcm},
    {"flowmatchlcmscheduler", SamplerKind::lcm},
};

}  // namespace

SamplerKind parse_sampler(std::string_view name) {
  const std::string key = squeeze(name);
  for (const Alias& alias : kAliases)
    if (alias.name == key) return alias.kind;
  fail(ErrorCode::invalid_argument,
       "expected unipc, euler, dpm++, dpm++_sde, lcm or the list of a distilled model, such as lightx2v-4, "
       "got '{}'",
       name);
}

Grid parse_grid(std::string_view name) {
  const std::string key = squeeze(name);
  if (key == "diffusers") return Grid::diffusers;
  if (key == "original" || key == "orig" || key == "wan") return Grid::original;
  if (key == "multitalk" || key == "infinitetalk") return Grid::multitalk;
  if (key == "wrapper" || key == "wanvideowrapper") return Grid::wrapper;
  if (key == "comfyui" || key == "simple") return Grid::comfyui;
  fail(ErrorCode::invalid_argument, "expected diffusers, original, multitalk, wrapper or comfyui, got '{}'",
       name);
}

std::string_view to_string(SamplerKind kind) {
  switch (kind) {
    case SamplerKind::unipc:
      return "unipc";
    case SamplerKind::euler:
      return "euler";
    case SamplerKind::dpmpp:
      return "dpm++";
    case SamplerKind::dpmpp_sde:
      return "dpm++_sde";
    case SamplerKind::lcm:
      return "lcm";
  }
  return "?";
}

std::string_view to_string(Grid grid) {
  switch (grid) {
    case Grid::diffusers:
      return "diffusers";
    case Grid::original:
      return "original";
    case Grid::multitalk:
      return "multitalk";
    case Grid::wrapper:
      return "wrapper";
    case Grid::comfyui:
      return "comfyui";
  }
  return "?";
}

}  // namespace tachy
