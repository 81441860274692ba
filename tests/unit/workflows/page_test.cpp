// A file of ComfyUI's page becomes the graph that the page would send.
#include "graph_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

json& page_node(json& file, int id) {
  for (json& node : file["nodes"])
    if (node["id"] == id) return node;
  throw std::out_of_range("no such node");
}

TEST(Page, SubgraphsReroutesPrimitivesAndModesAreResolved) {
  const json page = jobs::to_json(imported(graph_file("page")).settings);
  json api = jobs::to_json(imported(graph_file("api_text")).settings);
  EXPECT_EQ(page, api) << "both files hold the same graph";
}

TEST(Page, NodesInSubgraphsAreNamedByBothIds) {
  json file = graph_file("page");
  file["definitions"]["subgraphs"][0]["nodes"][0]["widgets_values"][3] = 0.5;
  const Refused refused = refusal(file);
  EXPECT_EQ(refused.code, ErrorCode::unsupported);
  EXPECT_THAT(refused.message, HasSubstr("node 12:1 KSampler, cfg: "));
}

TEST(Page, ABypassedNodeHandsOnTheInputOfItsType) {
  json file = graph_file("page");
  page_node(file, 2)["mode"] = 4;
  EXPECT_TRUE(imported(file).settings.request.loras.empty());
  page_node(file, 4)["mode"] = 4;
  EXPECT_EQ(imported(file).settings.request.shift, 8);
}

TEST(Page, AMutedNodeLeavesANameBehind) {
  json file = graph_file("page");
  page_node(file, 2)["mode"] = 2;
  EXPECT_THAT(refusal(file).message, HasSubstr("node 4 ModelSamplingSD3, model: nothing is connected"));
  file = graph_file("page");
  page_node(file, 14)["mode"] = 2;
  EXPECT_THAT(refusal(file).message, HasSubstr("no node SaveVideo"));
}

TEST(Page, FilesWithoutTheValueAfterASeedAreReadAlike) {
  json file = graph_file("page");
  json& values = file["definitions"]["subgraphs"][0]["nodes"][0]["widgets_values"];
  values.erase(1);
  EXPECT_EQ(imported(file).settings.request.guidance, 5);
  EXPECT_EQ(imported(file).settings.request.sampler, "euler");
}

TEST(Page, PromptsThatThePageWouldChangeAreRefused) {
  json file = graph_file("page");
  for (const char* text : {"a {red|blue} circle", "a circle // not a square", "a /* big */ circle"}) {
    page_node(file, 7)["widgets_values"][0] = text;
    EXPECT_THAT(refusal(file).message, HasSubstr("node 7 CLIPTextEncode, text: the page")) << text;
  }
  page_node(file, 7)["widgets_values"][0] = "a \\{red\\} circle";
  EXPECT_EQ(imported(file).settings.request.prompt, "a {red} circle");
}

TEST(Page, CirclesAndTooManyNodesEnd) {
  json file = graph_file("page");
  for (json& link : file["links"])
    if (link[3] == 6) link[1] = 6, link[2] = 0;  // the reroute feeds itself
  EXPECT_EQ(refusal(file).code, ErrorCode::corrupt);
  EXPECT_THAT(refusal(file).message, HasSubstr("circle"));
  file = graph_file("page");
  json& subgraph = file["definitions"]["subgraphs"][0];
  subgraph["nodes"].push_back({{"id", 9}, {"type", subgraph["id"]}});
  EXPECT_EQ(refusal(file).code, ErrorCode::unsupported) << "a subgraph inside itself";
  file = graph_file("page");
  for (int level = 0; level < 8; ++level) {  // 8 to the power of 8 nodes
    json outer = {{"id", "w" + std::to_string(level)}, {"nodes", json::array()}};
    for (int i = 0; i < 8; ++i)
      outer["nodes"].push_back({{"id", i}, {"type", level ? "w" + std::to_string(level - 1) : "Note"}});
    file["definitions"]["subgraphs"].push_back(outer);
  }
  file["nodes"].push_back({{"id", 99}, {"type", "w7"}});
  EXPECT_THAT(refusal(file).message, HasSubstr("nodes"));
}

}  // namespace
}  // namespace tachy::test
