// Vectorised activations, included once per instruction set by the kernels that fuse them. Relative
// error about 1e-6.
#if defined(ANTIPHON_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANTIPHON_ACTIVATIONS_INL_H_
#undef ANTIPHON_ACTIVATIONS_INL_H_
#else
#define ANTIPHON_ACTIVATIONS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/op.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp of non-positive arguments; far below zero it is zero.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNegative(D d, V x) {
  return hn::Exp(d, hn::Max(x, hn::Set(d, -87.0F)));
}

// 1 / (1 + exp(-x)), without overflow for either sign.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V e = ExpNegative(d, hn::Neg(hn::Abs(x)));
  const V one = hn::Set(d, 1.0F);
  const V positive = hn::Div(one, hn::Add(one, e));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(one, positive), positive);
}

// erf by Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911F), a, one));
  V p = hn::Set(d, 1.061405429F);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027F));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592F));
  const V y = hn::NegMulAdd(hn::Mul(p, t), ExpNegative(d, hn::Neg(hn::Mul(a, a))), one);
  return hn::CopySign(y, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Activate(D d, Activation activation, V x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kElu:
      return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x,
                            hn::Expm1(d, hn::Max(hn::Min(x, hn::Zero(d)), hn::Set(d, -87.0F))));
    case Activation::kGelu: {
      const V half = hn::Mul(hn::Set(d, 0.5F), x);
      return hn::MulAdd(half, Erf(d, hn::Mul(x, hn::Set(d, 0.70710678F))), half);
    }
    case Activation::kSilu:
      return hn::Mul(x, Sigmoid(d, x));
    case Activation::kRelu:
      return hn::Max(x, hn::Zero(d));
    case Activation::kSigmoid:
      return Sigmoid(d, x);
    case Activation::kTanh:
      return hn::Tanh(d, x);
  }
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
