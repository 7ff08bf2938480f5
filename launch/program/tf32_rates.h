// The rates of fp32 products in a device model if device.tf32 rounds them to TF32.
#pragma once

#include "checkpointing/device_model.h"

namespace recollect {

// Replaces the fp32 rates by those measured in TF32, or by half the rate of bf16 if there are none.
DeviceModel with_tf32(DeviceModel device);

}  // namespace recollect
