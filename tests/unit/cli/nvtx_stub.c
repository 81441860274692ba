// This library stands in for one of Nsight's tools: NVTX loads it through NVTX_INJECTION64_PATH, and for each
// range that begins ("+name") or ends ("-") it writes a line to the file that TACHY_TEST_NVTX names.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* g_file;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int t_depth;

static void line(char sign, const char* name) {
  pthread_mutex_lock(&g_mutex);
  fprintf(g_file, "%lx %c%s\n", (unsigned long)pthread_self(), sign, name);
  fflush(g_file);
  pthread_mutex_unlock(&g_mutex);
}

static int push(const char* name) {
  line('+', name);
  return t_depth++;
}

static int pop(void) {
  line('-', "");
  return --t_depth;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  const char* path = getenv("TACHY_TEST_NVTX");
  g_file = path ? fopen(path, "a") : NULL;
  const NvtxExportTableCallbacks* callbacks = get(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned int size = 0;
  if (!g_file || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
    return 0;
  if (size <= NVTX_CBID_CORE_RangePop) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
