// KernelTable, and kernels that are a plain function. A kernel owns a copy of the attributes that it needs,
// because graphs are edited and moved after kernels are made.
#include "engine/runtime/kernel.h"

#include <utility>

#include "engine/core/error.h"

namespace recollect {
namespace {

using Function = void (*)(const KernelArgs&, const Attributes&);

class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Function function, Attributes attributes)
      : function_(function), attributes_(std::move(attributes)) {}
  void run(const KernelArgs& args) override { function_(args, attributes_); }

 private:
  Function function_;
  Attributes attributes_;
};

}  // namespace

void KernelTable::add(std::string op, KernelFactory factory) {
  const auto [it, inserted] = factories_.emplace(std::move(op), std::move(factory));
  require(inserted, "op kind '" + it->first + "' has two kernels in one table");
}

void KernelTable::add(std::string op, Function function) {
  add(std::move(op), [function](const OpView& view) -> std::unique_ptr<Kernel> {
    return std::make_unique<FunctionKernel>(function, view.attributes());
  });
}

std::unique_ptr<Kernel> KernelTable::make(const OpView& view) const {
  const auto it = factories_.find(view.op.def->name);
  require(it != factories_.end(),
          "this backend has no kernel for op kind '" + view.op.def->name + "' (op '" + view.op.name + "')");
  return it->second(view);
}

}  // namespace recollect
