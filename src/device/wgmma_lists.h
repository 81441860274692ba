// The wgmma instruction names its registers one by one. These are its lists: TACHY_WGMMA_Sn names operands 0
// to n − 1 of an asm statement in its text, TACHY_WGMMA_Fn(d) binds them to the array d. The form with one operand in
// registers is written once for all its sizes.
#pragma once

#define TACHY_WGMMA_S32                                                                                    \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31"
#define TACHY_WGMMA_S40 TACHY_WGMMA_S32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define TACHY_WGMMA_S48 TACHY_WGMMA_S32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define TACHY_WGMMA_S44 TACHY_WGMMA_S32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43"
#define TACHY_WGMMA_S64                                                                               \
  TACHY_WGMMA_S32                                                                                     \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
  "%56,%57,%58,%59,%60,%61,%62,%63"
#define TACHY_WGMMA_S80 TACHY_WGMMA_S64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define TACHY_WGMMA_S96                                                                               \
  TACHY_WGMMA_S64                                                                                     \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87," \
  "%88,%89,%90,%91,%92,%93,%94,%95"

#define TACHY_WGMMA_F8(d, i)                                                                      \
  "+f"((d)[(i)]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3]), "+f"((d)[(i) + 4]), \
      "+f"((d)[(i) + 5]), "+f"((d)[(i) + 6]), "+f"((d)[(i) + 7])
#define TACHY_WGMMA_F32(d) \
  TACHY_WGMMA_F8(d, 0), TACHY_WGMMA_F8(d, 8), TACHY_WGMMA_F8(d, 16), TACHY_WGMMA_F8(d, 24)
#define TACHY_WGMMA_F64(d)                                                                 \
  TACHY_WGMMA_F32(d), TACHY_WGMMA_F8(d, 32), TACHY_WGMMA_F8(d, 40), TACHY_WGMMA_F8(d, 48), \
      TACHY_WGMMA_F8(d, 56)
#define TACHY_WGMMA_F40(d) TACHY_WGMMA_F32(d), TACHY_WGMMA_F8(d, 32)
#define TACHY_WGMMA_F48(d) TACHY_WGMMA_F32(d), TACHY_WGMMA_F8(d, 32), TACHY_WGMMA_F8(d, 40)
#define TACHY_WGMMA_F44(d) \
  TACHY_WGMMA_F32(d), TACHY_WGMMA_F8(d, 32), "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43])
#define TACHY_WGMMA_F80(d) TACHY_WGMMA_F64(d), TACHY_WGMMA_F8(d, 64), TACHY_WGMMA_F8(d, 72)
#define TACHY_WGMMA_F96(d)                                                                 \
  TACHY_WGMMA_F64(d), TACHY_WGMMA_F8(d, 64), TACHY_WGMMA_F8(d, 72), TACHY_WGMMA_F8(d, 80), \
      TACHY_WGMMA_F8(d, 88)

// Defines FUNCTION<N, TYPE>(d, a, b), d [64, N] += a [64, 16] · b [16, N], with the four registers of a named A0 to A3 and
// b's descriptor B. `K_DOWN` is "1" if N runs along b's rows in shared memory, and "0" if K does.
#define TACHY_WGMMA_A_IN_REGISTERS(FUNCTION, N, REGISTERS, A0, A1, A2, A3, B, TYPE, NAME, K_DOWN)          \
  template <>                                                                                              \
  __device__ inline void FUNCTION<N, TYPE>(float(&d)[REGISTERS], const uint32_t* a, uint64_t b) {          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME                           \
                 " {" TACHY_WGMMA_S##REGISTERS "}, {" A0 "," A1 "," A2 "," A3 "}, " B ", 1, 1, 1, " K_DOWN \
                                               ";\n"                                                       \
                 : TACHY_WGMMA_F##REGISTERS(d)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }
