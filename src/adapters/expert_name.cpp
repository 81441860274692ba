#include "adapters/expert_name.h"

#include <algorithm>
#include <vector>

namespace tachy {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Letters of other scripts also count as letters, since none of our words begins or ends next to one.
bool is_letter(char c) { return is_lower(c) || is_upper(c) || static_cast<unsigned char>(c) >= 0x80; }

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  return out;
}

struct Word {
  std::string_view spelled;
  std::string lower;
  bool number_before = false, number_behind = false;
};

bool is_ours(std::string_view lower) {
  return lower == "highnoise" || lower == "lownoise" || lower == "high" || lower == "low";
}

// Splits a run of letters into words: my|Low|Noise. If the whole run is one of our words in any mixture of
// small and capital letters, it stays one word. Capitals in a row belong together (WAN|High). The last of
// them begins a new word only after a digit (A14BHigh), because FLow does not mean low.
void add_run(std::string_view run, bool behind_digit, std::vector<Word>& words) {
  if (is_ours(lowered(run))) {
    words.push_back({run, lowered(run)});
    return;
  }
  size_t begin = 0;
  const auto cut = [&](size_t end) {
    if (end > begin)
      words.push_back({run.substr(begin, end - begin), lowered(run.substr(begin, end - begin))});
    begin = end;
  };
  for (size_t i = 1; i < run.size(); ++i) {
    const bool follows_small = is_upper(run[i]) && !is_upper(run[i - 1]);
    const bool last_capital = behind_digit && is_upper(run[i]) && is_upper(run[i - 1]) &&
                              i + 1 < run.size() && is_lower(run[i + 1]);
    if (follows_small || last_capital) cut(i);
  }
  cut(run.size());
}

std::vector<Word> words_of(std::string_view name) {
  std::vector<Word> words;
  bool number = false;  // whether a number follows the last word
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_letter(name[end])) ++end;
    if (end > i) {
      const size_t first = words.size();
      add_run(name.substr(i, end - i), i > 0 && is_digit(name[i - 1]), words);
      words[first].number_before = number;
      number = false;
      i = end;
    } else {
      number = number || is_digit(name[i]);
      ++i;
      if (!words.empty()) words.back().number_behind = words.back().number_behind || number;
    }
  }
  return words;
}

// Things that can be high or low themselves, in texts about pictures, people and machines.
constexpr std::string_view kOrdinary[] = {
    "angle",      "angles",     "bit",      "bitrate",  "budget",     "contrast",    "cut",    "def",
    "definition", "detail",     "detailed", "details",  "dynamic",    "end",         "energy", "exposure",
    "fantasy",    "fashion",    "fi",       "fidelity", "five",       "fps",         "frame",  "gloss",
    "heel",       "heels",      "kick",     "kicks",    "key",        "life",        "light",  "lighting",
    "lights",     "mem",        "memory",   "motion",   "neck",       "performance", "pitch",  "poly",
    "ponytail",   "pony",       "pressure", "priority", "q",          "quality",     "rank",   "ratio",
    "res",        "resolution", "rider",    "rise",     "saturation", "school",      "shot",   "shots",
    "speed",      "steps",      "step",     "strength", "sun",        "tech",        "tide",   "tower",
    "vram",       "waist",      "wind",
};

AdapterExpert expert_of(std::string_view lower) {
  if (lower == "high") return AdapterExpert::high;
  return lower == "low" ? AdapterExpert::low : AdapterExpert::unsaid;
}

// Tells which expert word `i` and its neighbours mean.
NamedExpert said_at(const std::vector<Word>& words, size_t i) {
  const auto is = [&](size_t at, std::string_view lower) {
    return at < words.size() && words[at].lower == lower;
  };
  const Word& word = words[i];
  const std::string spelled(word.spelled);
  if (is(i, "highnoise") || is(i, "hn")) return {AdapterExpert::high, spelled, word.lower != "hn"};
  if (is(i, "lownoise") || is(i, "ln")) return {AdapterExpert::low, spelled, word.lower != "ln"};
  const AdapterExpert expert = expert_of(word.lower);
  if (expert == AdapterExpert::unsaid) return {};
  if (is(i + 1, "noise") && !words[i + 1].number_before) {
    const char* begin = word.spelled.data();
    const std::string_view next = words[i + 1].spelled;
    return {expert, std::string(begin, static_cast<size_t>(next.data() + next.size() - begin)), true};
  }
  if (i > 0 && is(i - 1, "noise") && expert_of(i > 1 ? words[i - 2].lower : "") == AdapterExpert::unsaid)
    return {expert, spelled, true};
  // A single "noise" may follow the words of both experts.
  const size_t next = is(i + 1, "and") ? i + 2 : i + 1;
  if (is(next + 1, "noise") && (is(next, "high") || is(next, "low"))) return {expert, spelled, true};
  // rank64 and steps2000 describe how the file was trained.
  const bool phrase = i + 1 < words.size() && !words[i + 1].number_before && !words[i + 1].number_behind;
  if (phrase && std::ranges::find(kOrdinary, words[i + 1].lower) != std::end(kOrdinary)) return {};
  return {expert, spelled, false};
}

}  // namespace

const char* to_string(AdapterExpert expert) {
  switch (expert) {
    case AdapterExpert::high:
      return "high";
    case AdapterExpert::low:
      return "low";
    case AdapterExpert::both:
      return "both";
    case AdapterExpert::unsaid:
      break;
  }
  return "";
}

const char* expert_text(AdapterExpert expert) {
  if (expert == AdapterExpert::both) return "both experts";
  return expert == AdapterExpert::low ? "the low-noise expert" : "the high-noise expert";
}

NamedExpert expert_in_name(std::string_view name) {
  std::vector<NamedExpert> said;
  for (const auto& [word, expert] : {std::pair<std::string_view, AdapterExpert>{"高噪", AdapterExpert::high},
                                     {"低噪", AdapterExpert::low}})  // scripts without spaces between words
    if (name.find(word) != name.npos) said.push_back({expert, std::string(word), true});
  const std::vector<Word> words = words_of(name);
  for (size_t i = 0; i < words.size(); ++i)
    if (NamedExpert at = said_at(words, i); at.expert != AdapterExpert::unsaid) said.push_back(std::move(at));
  if (std::ranges::any_of(said, &NamedExpert::certain))
    std::erase_if(said, [](const auto& s) { return !s.certain; });
  const bool agreed = !said.empty() && std::ranges::all_of(said, [&](const auto& s) {
    return s.expert == said.front().expert;
  });
  return agreed ? said.front() : NamedExpert{};
}

}  // namespace tachy
