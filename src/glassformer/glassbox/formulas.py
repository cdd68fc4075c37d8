"""The formula of each op in MathML, which browsers draw without a library."""

from __future__ import annotations

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"


def _i(letter: str) -> str:
    return f"<mi>{letter}</mi>"


def _n(number: str) -> str:
    return f"<mn>{number}</mn>"


def _o(sign: str) -> str:
    return f"<mo>{sign}</mo>"


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _sub(base: str, index: str) -> str:
    return f"<msub>{base}{index}</msub>"


def _sup(base: str, power: str) -> str:
    return f"<msup>{base}{power}</msup>"


def _over(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def _root(inner: str) -> str:
    return f"<msqrt>{inner}</msqrt>"


def _sum(index: str) -> str:
    return f"<munder>{_o('∑')}{index}</munder>"


def _call(name: str, *parts: str) -> str:
    return _row(_i(name), _o("("), *parts, _o(")"))


def _math(*parts: str) -> str:
    return f'<math xmlns="{_NAMESPACE}" display="block">{"".join(parts)}</math>'


_EQUALS, _PLUS, _MINUS, _TIMES, _COMMA = _o("="), _o("+"), _o("−"), _o("·"), _o(",")
_X, _D_MODEL, _D_K = _i("x"), _sub(_i("d"), _i("model")), _sub(_i("d"), _i("k"))
_HEAD, _SCORES = _sub(_i("head"), _i("i")), _row(_i("Q"), _sup(_i("K"), _i("⊤")))


def _projection(letter: str, of: str) -> str:
    weight = f"<msubsup>{_i('W')}{_i('i')}{_i(letter)}</msubsup>"
    return _math(_sub(_i(letter), _i("i")), _EQUALS, _i(of), weight)


_ANGLE = _over(_i("p"), _sup(_i("n"), _over(_row(_n("2"), _i("i")), _D_MODEL)))
_DEVIATION = _row(_X, _MINUS, _i("μ"))

FORMULAS: dict[str, str] = {
    "embedded": _math(_X, _EQUALS, _sub(_i("E"), _i("id"))),
    "times_root_d": _math(_X, _TIMES, _root(_D_MODEL)),
    "sinusoids": _math(
        _call("PE", _i("p"), _COMMA, _n("2"), _i("i")),
        _EQUALS,
        _call("sin", _ANGLE),
        _o(";"),
        _call("PE", _i("p"), _COMMA, _n("2"), _i("i"), _PLUS, _n("1")),
        _EQUALS,
        _call("cos", _ANGLE),
    ),
    "learned_positions": _math(_sub(_i("P"), _i("p"))),
    "input": _math(_X, _TIMES, _root(_D_MODEL), _PLUS, _i("PE")),
    "queries": _projection("Q", "x"),
    "keys": _projection("K", "m"),
    "values": _projection("V", "m"),
    "scores": _math(_sub(_i("Q"), _i("i")), f"<msubsup>{_i('K')}{_i('i')}{_i('⊤')}</msubsup>"),
    "scaled": _math(_over(_SCORES, _root(_D_K))),
    "weights": _math(
        _i("A"),
        _EQUALS,
        _call("softmax", _over(_SCORES, _root(_D_K))),
        _o(";"),
        _sub(_i("A"), _row(_i("t"), _i("s"))),
        _EQUALS,
        _over(
            _sup(_i("e"), _sub(_i("z"), _row(_i("t"), _i("s")))),
            _row(
                _sum(_row(_i("j"), _i("\N{NO-BREAK SPACE}visible"))),
                _sup(_i("e"), _sub(_i("z"), _row(_i("t"), _i("j")))),
            ),
        ),
    ),
    "heads": _math(_HEAD, _EQUALS, _sub(_i("A"), _i("i")), _sub(_i("V"), _i("i"))),
    "concatenated": _math(
        _call("Concat", _sub(_i("head"), _n("1")), _COMMA, _o("…"), _COMMA, _sub(_i("head"), _i("h")))
    ),
    "attention_output": _math(
        _call("Concat", _sub(_i("head"), _n("1")), _COMMA, _o("…"), _COMMA, _sub(_i("head"), _i("h"))),
        _sup(_i("W"), _i("O")),
    ),
    "residual": _math(_X, _PLUS, _call("Sublayer", _X)),
    "residual_pre": _math(_X, _PLUS, _call("Sublayer", _call("LayerNorm", _X))),
    "mean": _math(_i("μ"), _EQUALS, _over(_n("1"), _D_MODEL), _sum(_i("j")), _sub(_X, _i("j"))),
    "variance": _math(
        _sup(_i("σ"), _n("2")),
        _EQUALS,
        _over(_n("1"), _D_MODEL),
        _sum(_i("j")),
        _sup(_row(_o("("), _sub(_X, _i("j")), _MINUS, _i("μ"), _o(")")), _n("2")),
    ),
    "layer_norm": _math(
        _i("γ"), _o("⊙"), _over(_DEVIATION, _root(_row(_sup(_i("σ"), _n("2")), _PLUS, _i("ε")))), _PLUS, _i("β")
    ),
    "hidden": _math(_X, _sub(_i("W"), _n("1")), _PLUS, _sub(_i("b"), _n("1"))),
    "relu": _math(_call("max", _n("0"), _COMMA, _i("h"))),
    "gelu": _math(_i("h"), _TIMES, _call("Φ", _i("h"))),
    "swish": _math(_over(_i("h"), _row(_n("1"), _PLUS, _sup(_i("e"), _row(_MINUS, _i("h")))))),
    "feed_forward_output": _math(_i("a"), _sub(_i("W"), _n("2")), _PLUS, _sub(_i("b"), _n("2"))),
    "logits": _math(_i("z"), _EQUALS, _i("h"), _sup(_i("W"), _i("⊤"))),
    "logits_with_bias": _math(_i("z"), _EQUALS, _i("h"), _sup(_i("W"), _i("⊤")), _PLUS, _i("b")),
    "log_probs": _math(
        _i("log"), _i("p"), _EQUALS, _i("z"), _MINUS, _i("log"), _sum(_i("v")), _sup(_i("e"), _sub(_i("z"), _i("v")))
    ),
    "smoothed_targets": _math(
        _i("q"), _EQUALS, _row(_o("("), _n("1"), _MINUS, _i("ε"), _o(")")), _i("onehot"), _PLUS, _over(_i("ε"), _i("V"))
    ),
    "losses": _math(_i("L"), _EQUALS, _MINUS, _sum(_i("v")), _sub(_i("q"), _i("v")), _i("log"), _sub(_i("p"), _i("v"))),
    "overwrite": _math(_i("edited")),
}
"""Key of a formula -> MathML. x is the input of the sublayer; m is x in self-attention, the memory in cross."""
