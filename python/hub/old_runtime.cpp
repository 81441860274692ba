// Stands in for what glibc 2.28 and GCC 8 do not have, in libraries for Hugging Face's hub (cmake/hub.cmake). Nothing here is exported.
//
// A program that is linked on a newer system asks for the newest version of each function, even where only its place or its errno changed. Here
// each such name is a jump to the older version, which every later glibc keeps. What has no older version is written out.
#include <new>

#define HIDDEN __attribute__((visibility("hidden"), used))
#define OLD(name, version)                                                                   \
  asm(".pushsection .text\n.symver tachy_old_" #name "," #name "@" version "\n.globl " #name \
      "\n.hidden " #name "\n.type " #name ", @function\n" #name ":\n  jmp *tachy_old_" #name \
      "@GOTPCREL(%rip)\n.size " #name ", .-" #name "\n.popsection");
#define BASE(name) OLD(name, "GLIBC_2.2.5")

extern "C" {
// Functions of their own since 2.33. 1 is the form of the struct that x86-64 has had ever since.
int __xstat(int form, const char* path, void* out);
int __lxstat(int form, const char* path, void* out);
int __fxstat(int form, int file, void* out);
HIDDEN int old_stat(const char* path, void* out) asm("stat");
HIDDEN int old_lstat(const char* path, void* out) asm("lstat");
HIDDEN int old_fstat(int file, void* out) asm("fstat");
HIDDEN int old_fstat64(int file, void* out) asm("fstat64");
int old_stat(const char* path, void* out) { return __xstat(1, path, out); }
int old_lstat(const char* path, void* out) { return __lxstat(1, path, out); }
int old_fstat(int file, void* out) { return __fxstat(1, file, out); }
int old_fstat64(int file, void* out) { return __fxstat(1, file, out); }

// Waits on a clock since 2.30. What has waited on the steady one waits as long on the other, whose number is 0.
struct Time {
  long seconds, nanoseconds;
};
int time_of(int clock, Time* now) asm("clock_gettime");
int timed_wait(void* condition, void* mutex, const Time* until) asm("pthread_cond_timedwait");
HIDDEN int old_clockwait(void* condition, void* mutex, int clock,
                         const Time* until) asm("pthread_cond_clockwait");
int old_clockwait(void* condition, void* mutex, int clock, const Time* until) {
  Time from, now;
  time_of(clock, &from);
  time_of(0, &now);
  now.seconds += until->seconds - from.seconds;
  now.nanoseconds += until->nanoseconds - from.nanoseconds;
  const long carry = now.nanoseconds >= 1000000000 ? 1 : now.nanoseconds < 0 ? -1 : 0;
  now.seconds += carry;
  now.nanoseconds -= carry * 1000000000;
  return timed_wait(condition, mutex, &now);
}

extern __attribute__((visibility("hidden"))) char old_single_threaded asm("__libc_single_threaded");
char old_single_threaded = 0;  // says nothing, so counters of shared pointers are always atomic

// oneDNN's answer to everything is "unimplemented" (3): no operation of Python comes here.
HIDDEN int no_onednn_limit(int) asm("dnnl_set_max_cpu_isa");
int no_onednn_limit(int) { return 0; }
HIDDEN void no_openmp(int) asm("omp_set_num_threads");
void no_openmp(int) {}
HIDDEN int one_thread() asm("omp_get_max_threads");
int one_thread() { return 1; }
HIDDEN int no_onednn();
int no_onednn() { return 3; }
}

// std::exception_ptr counts by itself since 12; before, its copies and its destructor did.
asm(".symver tachy_old_copy, _ZNSt15__exception_ptr13exception_ptrC1ERKS0_@CXXABI_1.3.3");
asm(".symver tachy_old_destroy, _ZNSt15__exception_ptr13exception_ptrD1Ev@CXXABI_1.3.3");
extern "C" {
struct ExceptionPtr {
  void* object;
};
void tachy_old_copy(ExceptionPtr* to, const ExceptionPtr* from);
void tachy_old_destroy(ExceptionPtr* it);
HIDDEN void exception_addref(ExceptionPtr* it) asm("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
HIDDEN void exception_release(ExceptionPtr* it) asm("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
[[noreturn]] HIDDEN void bad_array_new_length() asm("_ZSt28__throw_bad_array_new_lengthv");
void exception_addref(ExceptionPtr* it) {
  ExceptionPtr kept;  // and never destroyed, so that one more is counted
  tachy_old_copy(&kept, it);
}
void exception_release(ExceptionPtr* it) {
  tachy_old_destroy(it);
  it->object = nullptr;
}
void bad_array_new_length() { throw std::bad_array_new_length(); }
}

// clang-format off
// The C library's mathematics: 2.29 left out a wrapper that sets errno.
BASE(exp) BASE(exp2) BASE(log) BASE(log2) BASE(pow)
// In libpthread, libdl and librt before 2.34, which Python has loaded.
BASE(dlclose) BASE(dlerror) BASE(dlopen) BASE(dlsym) BASE(dlvsym) BASE(dladdr) OLD(dladdr1, "GLIBC_2.3.3")
OLD(dlmopen, "GLIBC_2.3.4") BASE(shm_open) BASE(shm_unlink) BASE(sem_destroy) BASE(sem_init) BASE(sem_post)
BASE(sem_timedwait) BASE(sem_trywait) BASE(sem_wait) BASE(pthread_create) BASE(pthread_detach)
BASE(pthread_join) BASE(pthread_kill) BASE(pthread_once) BASE(pthread_sigmask) BASE(pthread_getspecific)
BASE(pthread_key_create) BASE(pthread_key_delete) BASE(pthread_setspecific) BASE(pthread_mutex_trylock)
BASE(pthread_mutexattr_destroy) BASE(pthread_mutexattr_init) BASE(pthread_mutexattr_setpshared)
BASE(pthread_mutexattr_settype) BASE(pthread_condattr_setpshared) BASE(pthread_rwlock_destroy)
BASE(pthread_rwlock_init) BASE(pthread_rwlock_rdlock) BASE(pthread_rwlock_timedrdlock)
BASE(pthread_rwlock_timedwrlock) BASE(pthread_rwlock_tryrdlock) BASE(pthread_rwlock_trywrlock)
BASE(pthread_rwlock_unlock) BASE(pthread_rwlock_wrlock) BASE(pthread_rwlockattr_destroy)
BASE(pthread_rwlockattr_init) BASE(pthread_rwlockattr_setpshared) BASE(pthread_spin_destroy)
BASE(pthread_spin_init) BASE(pthread_spin_lock) BASE(pthread_spin_trylock) BASE(pthread_spin_unlock)
// std::condition_variable::wait: 3.4.30 only says noexcept.
OLD(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "GLIBCXX_3.4.11")

#define NONE(name) asm(".globl dnnl_" #name "\n.hidden dnnl_" #name "\n.set dnnl_" #name ", no_onednn");
NONE(convolution_forward_desc_init) NONE(convolution_forward_primitive_desc_create) NONE(engine_create)
NONE(engine_destroy) NONE(memory_create) NONE(memory_desc_clone) NONE(memory_desc_create_with_tag)
NONE(memory_desc_destroy) NONE(memory_desc_equal) NONE(memory_desc_get_size) NONE(memory_desc_init_by_tag)
NONE(memory_destroy) NONE(memory_get_engine) NONE(memory_get_memory_desc) NONE(post_ops_append_sum)
NONE(post_ops_create) NONE(post_ops_destroy) NONE(primitive_attr_clone) NONE(primitive_attr_create)
NONE(primitive_attr_destroy) NONE(primitive_attr_set_post_ops) NONE(primitive_attr_set_scratchpad_mode)
NONE(primitive_create) NONE(primitive_desc_destroy) NONE(primitive_desc_iterator_create)
NONE(primitive_desc_iterator_destroy) NONE(primitive_desc_iterator_fetch) NONE(primitive_desc_iterator_next)
NONE(primitive_desc_next_impl) NONE(primitive_desc_query) NONE(primitive_desc_query_md)
NONE(primitive_destroy) NONE(primitive_execute) NONE(reorder_primitive_desc_create) NONE(stream_create)
NONE(stream_destroy) NONE(stream_wait) NONE(version)
    // clang-format on
