/* real.h: the number type of the reference kernels.
 *
 * Every layer file is compiled twice: with float, which is what trains where no faster kernel takes a shape, and with
 * MODEL_DOUBLE, the yardstick for all others. Exported names carry a suffix; nothing else differs. */
#ifndef MODEL_REAL_H
#define MODEL_REAL_H

#include <math.h>

#ifdef MODEL_DOUBLE
typedef double real;
#define REAL(name) name##_f64
#define real_exp   exp
#define real_log   log
#define real_sqrt  sqrt
#define real_tanh  tanh
#define real_erf   erf
#else
typedef float real;
#define REAL(name) name##_f32
#define real_exp   expf
#define real_log   logf
#define real_sqrt  sqrtf
#define real_tanh  tanhf
#define real_erf   erff
#endif

#endif
