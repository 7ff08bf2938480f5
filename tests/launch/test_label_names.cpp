// Which class a label of the data is, beside what the head of a pretrained model calls its classes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launch/train/label_names.h"
#include "parallel/models/families.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using Names = std::vector<std::string>;

class LabelNamesOfAHead : public ::testing::Test {
 protected:
  // `head`: what config.json says of it.
  Config config(const std::string& head, int64_t classes) const {
    Config config;
    config.model = Config::Model(*find_model_family("bert"));
    config.model.values.set("num_labels", classes);
    config.model.pretrained = head.empty() ? "" : folder_.path();
    folder_.write("config.json", "{" + head + "}");
    return config;
  }

  test::TemporaryFolder folder_;
};

constexpr const char *
    kHead =
       R"("id2label": {"0": "neg", "1": "neutral", "2": "pos"}, "label2id": {"neg": 0, "neutral": 1, "pos": 2})",
   *kTurned = R"("label2id": {"pos": 2, "neg": 0, "neutral": 1})";

TEST_F(LabelNamesOfAHead, DecideAsRunGlueHasIt) {
  struct Case {
    const char* head;
    int64_t classes;
    Names found, names;  // no names: as they were found
    bool said;
  };
  const Case cases[] = {{kHead, 3, {"neg", "neutral", "pos"}, {"neg", "neutral", "pos"}, false},
                        {kHead, 3, {"neutral", "pos"}, {"neg", "neutral", "pos"}, false},
                        {kTurned, 3, {"neg", "pos"}, {"neg", "neutral", "pos"}, false},
                        {kHead, 3, {"NEG", "NEUTRAL", "POS"}, {"NEG", "NEUTRAL", "POS"}, true},
                        {kHead, 3, {"0", "1", "2"}, {"neg", "neutral", "pos"}, true},
                        {kHead, 3, {"0", "2"}, {"neg", "neutral", "pos"}, true},
                        {kHead, 3, {"1", "2", "3"}, {}, true},
                        {kHead, 3, {"bad", "fair", "good"}, {}, true},
                        {kHead, 2, {"0", "1"}, {}, false},  // another head, which is drawn
                        {R"("id2label": {"0": "LABEL_0", "1": "LABEL_1"})", 2, {"0", "1"}, {}, false},
                        {"", 3, {"0", "1", "2"}, {}, false},
                        {"", 3, {"0", "2"}, {"0", "1", "2"}, false},
                        {"", 3, {"1", "2", "3"}, {}, true},
                        {"", 3, {"a", "b", "c"}, {}, false}};
  for (const Case& one : cases) {
    const LabelNames chosen = choose_label_names(config(one.head, one.classes), one.found);
    EXPECT_EQ(chosen.names, one.names) << one.head << " " << one.found.front();
    EXPECT_EQ(!chosen.remarks.empty(), one.said) << one.head << " " << one.found.front();
  }
}

TEST_F(LabelNamesOfAHead, ThatContradictThemselvesAreAnError) {
  const Config wrong = config(R"("id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0})", 2);
  test::expect_error(ExitCode::kInput, {"config.json", "id2label and label2id contradict each other"}, [&] {
    choose_label_names(wrong, {"a", "b"});
  });
}

TEST_F(LabelNamesOfAHead, InAnotherOrderAreTold) {
  Config given = config(kHead, 3);
  given.data.labels = {"pos", "neutral", "neg"};
  EXPECT_NE(reordered_labels(given).value_or("").find("pos, neutral, neg"), std::string::npos);
  for (const Names& names : {Names{"neg", "neutral", "pos"}, Names{"a", "b", "c"}}) {
    given.data.labels = names;
    EXPECT_EQ(reordered_labels(given), std::nullopt);
  }
}

}  // namespace
}  // namespace recollect
