// What a device's model says of products in fp32 where device.tf32 has them rounded to TF32.
#pragma once

#include "checkpointing/device_model.h"

namespace recollect {

// The rates that were measured in TF32 in place of those in fp32; where there are none, half the rate of bf16.
DeviceModel with_tf32(DeviceModel device);

}  // namespace recollect
