// A template as a tree. Every node knows its line; what a node holds depends on its kind.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/jinja/value.h"

namespace recollect::jinja {

// The names that a macro has without being given them, where its body reads them.
enum : int { kUsesVarargs = 1, kUsesKwargs = 2, kUsesCaller = 4 };

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Nodes = std::vector<NodePtr>;

struct Node {
  enum class Kind {
    // statements
    kData,         // value
    kPrint,        // items[0]
    kFor,          // items: target, list, the condition or null; body; otherwise; flag: recursive
    kIf,           // items[0]; body; otherwise
    kSet,          // items: target, value
    kSetBlock,     // items: target, filters or null; body
    kMacro,        // name; named: parameters with their defaults or null; body; value: kUses...
    kCallBlock,    // items[0]: the call; named: parameters; body; value: kUses...
    kFilterBlock,  // items[0]: filters of nothing; body
    kWith,         // items: targets and values by turns; body
    kGeneration,   // body
    kBreak,
    kContinue,
    // expressions
    kName,         // name
    kConstant,     // value
    kTuple,        // items
    kList,         // items
    kDict,         // items: keys and values by turns
    kAttribute,    // items[0], name
    kItem,         // items: of what, which
    kSlice,        // items: start, stop, step; each may be null
    kCall,         // items: what, and arguments; named; star; stars
    kFilter,       // items: of what (null in a block), and arguments; name, named, star, stars
    kTest,         // the same
    kNot,          // items[0]
    kNegative,     // items[0]
    kPositive,     // items[0]
    kBinary,       // name: the operator; items: two
    kAnd,          // items: two
    kOr,           // items: two
    kCompare,      // items[0]; named: operators with what they compare with
    kJoin,         // ~ of items
    kConditional,  // items: condition, then, else or null
    kField         // of a namespace, as a target: name, value
  };
  Kind kind;
  int line = 0;
  std::string name = {};
  Value value = {};
  Nodes items = {};
  std::vector<std::pair<std::string, NodePtr>> named = {};
  NodePtr star = {}, stars = {};
  Nodes body = {}, otherwise = {};
  bool flag = false;
  int height = 1;  // of an expression: of the longest way down
};

}  // namespace recollect::jinja
