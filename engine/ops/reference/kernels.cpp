// The f32 or the f64 instance of a kernel is selected once, when the kernel is made.
#include "engine/ops/reference/kernels.h"

#include <memory>
#include <utility>

namespace recollect::reference {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(Function function, Attributes attributes, std::size_t workspace_bytes)
      : function_(function), attributes_(std::move(attributes)), workspace_bytes_(workspace_bytes) {}
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelArgs& args) override { function_(args, attributes_); }

 private:
  Function function_;
  Attributes attributes_;
  std::size_t workspace_bytes_;
};

}  // namespace

bool runs_in_float(const OpView& view) {
  bool any = false;
  for (std::size_t i = 0; i < view.op.inputs.size(); ++i) {
    if (!view.has_input(static_cast<int>(i))) continue;
    const Value& value = view.in(static_cast<int>(i));
    if (value.dtype == DType::kBF16 || value.dtype == DType::kF16)
      throw Error(ExitCode::kConfiguration,
                  "the reference backend computes in f64 and f32, but '" + value.name + "' is " +
                      std::string(name_of(value.dtype)),
                  "use device.backend: cpu, or training.precision: fp32 or fp64");
    any = any || value.dtype == DType::kF32;
  }
  return any;
}

void add_kernel(KernelTable& table, std::string op, Function in_double, Function in_float,
                WorkspaceBytes workspace_bytes) {
  table.add(std::move(op), [=](const OpView& view) -> std::unique_ptr<Kernel> {
    return std::make_unique<ReferenceKernel>(runs_in_float(view) ? in_float : in_double, view.attributes(),
                                             workspace_bytes ? workspace_bytes(view) : 0);
  });
}

}  // namespace recollect::reference
