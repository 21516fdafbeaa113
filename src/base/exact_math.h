/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions that give the same bits on every machine: made of + - * / and sqrt, which IEEE 754
 * rounds correctly, in a fixed order. A C library's sin or exp may differ in the last bit between versions,
 * and one bit is enough to move a label. Relative error below 1e-15 where nothing else is said (tests compare
 * with libm).
 */
#ifndef STOKE_SRC_BASE_EXACT_MATH_H
#define STOKE_SRC_BASE_EXACT_MATH_H

enum { STK_EXACT_LANES = 16 }; /* enough to keep two units of 13 cycles per quotient at work */

/* Exact at multiples of 90 degrees: the cosine of 90 is 0. |degrees| up to 2^40; beyond, and for NaN, those
 * of 0 degrees. */
void stk_sincos_degrees(double degrees, double *sine, double *cosine);
/* The same bits for STK_EXACT_LANES numbers at once. */
void stk_sincos_degrees_lanes(const double *degrees, double *sine, double *cosine);

/* 0 below -708 and e^709 above 709: no infinities, no subnormal numbers. */
double stk_exp(double x);
/* Of a positive finite number; -1e9 for 0 and below, so that exp(log(0)) is 0 again. */
double stk_log(double x);
/* The same bits for STK_EXACT_LANES numbers at once: positive, finite, not subnormal. */
void stk_log_lanes(const double *x, double *log);
/* x^y for x >= 0 by exp(y log x): the error grows to |y log x| * 3e-16. pow(0, y > 0) = 0, pow(x, 0) = 1. */
double stk_pow(double x, double y);

#endif
