// libcuda.so.1, as much of it as cuDNN looks for when it plans for a device that is only described: it takes
// every kernel, and runs none.
extern "C" {

int cuInit(unsigned) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuLibraryLoadData(void** library, const void*, void*, void**, unsigned, void*, void**, unsigned) {
  static int loaded;
  *library = &loaded;
  return 0;
}

int cuLibraryGetKernel(void** kernel, void* library, const char*) {
  *kernel = library;
  return 0;
}

int cuLibraryUnload(void*) { return 0; }

// Looked for and not called.
#define RECOLLECT_ABSENT(name) \
  int name() { return 801; }  // not supported

RECOLLECT_ABSENT(cuCtxGetCurrent)
RECOLLECT_ABSENT(cuCtxGetDevice)
RECOLLECT_ABSENT(cuCtxGetLimit)
RECOLLECT_ABSENT(cuCtxPopCurrent)
RECOLLECT_ABSENT(cuCtxPushCurrent)
RECOLLECT_ABSENT(cuDeviceGet)
RECOLLECT_ABSENT(cuDeviceGetAttribute)
RECOLLECT_ABSENT(cuDeviceGetCount)
RECOLLECT_ABSENT(cuDevicePrimaryCtxRelease)
RECOLLECT_ABSENT(cuDevicePrimaryCtxReset)
RECOLLECT_ABSENT(cuDevicePrimaryCtxRetain)
RECOLLECT_ABSENT(cuFuncGetAttribute)
RECOLLECT_ABSENT(cuFuncSetAttribute)
RECOLLECT_ABSENT(cuGetErrorName)
RECOLLECT_ABSENT(cuGetErrorString)
RECOLLECT_ABSENT(cuGetExportTable)
RECOLLECT_ABSENT(cuKernelGetAttribute)
RECOLLECT_ABSENT(cuKernelGetFunction)
RECOLLECT_ABSENT(cuKernelSetAttribute)
RECOLLECT_ABSENT(cuLaunchCooperativeKernel)
RECOLLECT_ABSENT(cuLaunchKernel)
RECOLLECT_ABSENT(cuLaunchKernelEx)
RECOLLECT_ABSENT(cuLibraryLoadFromFile)
RECOLLECT_ABSENT(cuLinkAddData)
RECOLLECT_ABSENT(cuLinkAddData_v2)
RECOLLECT_ABSENT(cuLinkAddFile_v2)
RECOLLECT_ABSENT(cuLinkComplete)
RECOLLECT_ABSENT(cuLinkCreate)
RECOLLECT_ABSENT(cuLinkCreate_v2)
RECOLLECT_ABSENT(cuLinkDestroy)
RECOLLECT_ABSENT(cuMemcpyDtoH_v2)
RECOLLECT_ABSENT(cuModuleGetFunction)
RECOLLECT_ABSENT(cuModuleGetGlobal_v2)
RECOLLECT_ABSENT(cuModuleLoadData)
RECOLLECT_ABSENT(cuModuleLoadDataEx)
RECOLLECT_ABSENT(cuModuleLoadFatBinary)
RECOLLECT_ABSENT(cuModuleUnload)
RECOLLECT_ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
RECOLLECT_ABSENT(cuOccupancyMaxPotentialClusterSize)
RECOLLECT_ABSENT(cuStreamGetCtx)
RECOLLECT_ABSENT(cuStreamSynchronize)
RECOLLECT_ABSENT(cuTensorMapEncodeTiled)
}
