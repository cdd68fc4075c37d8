"""The formulas of the tensors in MathML, which browsers draw without a library."""

from __future__ import annotations


def _markup(part: str) -> str:
    """MathML of a part: as it is, or of words between spaces, each a number, a letter or name, or a sign."""
    if part.startswith("<"):
        return part
    kinds = (("mn" if word.isdigit() else "mi" if word[0].isalpha() else "mo", word) for word in part.split(" "))
    return "".join(f"<{kind}>{word}</{kind}>" for kind, word in kinds)


def _element(name: str, *parts: str) -> str:
    return f"<{name}>{''.join(map(_markup, parts))}</{name}>"


def _row(*parts: str) -> str:
    return _element("mrow", *parts)


def _sub(base: str, index: str) -> str:
    return _element("msub", base, index)


def _sup(base: str, power: str) -> str:
    return _element("msup", base, power)


def _over(above: str, below: str) -> str:
    return _element("mfrac", above, below)


def _root(inner: str) -> str:
    return _element("msqrt", inner)


def _sum(index: str) -> str:
    return _element("munder", "∑", index)


def _call(name: str, *parts: str) -> str:
    return _row(name, "(", *parts, ")")


def _math(*parts: str) -> str:
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{"".join(map(_markup, parts))}</math>'


def _projection(letter: str, of: str) -> str:
    return _math(_sub(letter, "i"), "=", of, _element("msubsup", "W", "i", letter))


_D_MODEL, _VARIANCE, _TRANSPOSED = _sub("d", "model"), _sup("σ", "2"), "<mi>⊤</mi>"
_SCORES = _over(_row("Q", _sup("K", _TRANSPOSED)), _root(_sub("d", "k")))
_ANGLE = _over("p", _sup("n", _over(_row("2 i"), _D_MODEL)))
_HEADS = _call("Concat", _sub("head", "1"), ", … ,", _sub("head", "h"))
_LOGITS = ("z = h", _sup("W", _TRANSPOSED))


def _exponential(column: str) -> str:
    return _sup("e", _sub("z", _row(f"t {column}")))


FORMULAS: dict[str, str] = {
    "embedding.embedded": _math("x =", _sub("E", "id")),
    "embedding.scaled": _math("x ·", _root(_D_MODEL)),
    "embedding.positions": _math(
        _call("PE", "p , 2 i"), "=", _call("sin", _ANGLE), ";", _call("PE", "p , 2 i + 1"), "=", _call("cos", _ANGLE)
    ),
    "embedding.learned_positions": _math(_sub("P", "p")),
    "embedding.input": _math("x ·", _root(_D_MODEL), "+ PE"),
    "attention.queries": _projection("Q", "x"),
    "attention.keys": _projection("K", "m"),
    "attention.values": _projection("V", "m"),
    "attention.scores": _math(_sub("Q", "i"), _element("msubsup", "K", "i", _TRANSPOSED)),
    "attention.scaled": _math(_SCORES),
    "attention.weights": _math(
        "A =",
        _call("softmax", _SCORES),
        ";",
        _sub("A", _row("t s")),
        "=",
        _over(_exponential("s"), _row(_sum(_row("j", "<mi>\N{NO-BREAK SPACE}visible</mi>")), _exponential("j"))),
    ),
    "attention.heads": _math(_sub("head", "i"), "=", _sub("A", "i"), _sub("V", "i")),
    "attention.concatenated": _math(_HEADS),
    "attention.output": _math(_HEADS, _sup("W", "O")),
    "sublayer.residual": _math("x +", _call("Sublayer", "x")),
    "sublayer.residual_pre": _math("x +", _call("Sublayer", _call("LayerNorm", "x"))),
    "feed_forward.hidden": _math("x", _sub("W", "1"), "+", _sub("b", "1")),
    "feed_forward.relu": _math(_call("max", "0 , h")),
    "feed_forward.gelu": _math("h ·", _call("Φ", "h")),
    "feed_forward.swish": _math(_over("h", _row("1 +", _sup("e", _row("− h"))))),
    "feed_forward.output": _math("a", _sub("W", "2"), "+", _sub("b", "2")),
    "norm.mean": _math("μ =", _over("1", _D_MODEL), _sum("j"), _sub("x", "j")),
    "norm.variance": _math(
        _VARIANCE, "=", _over("1", _D_MODEL), _sum("j"), _sup(_row("(", _sub("x", "j"), "− μ )"), "2")
    ),
    "norm.output": _math("γ ⊙", _over(_row("x − μ"), _root(_row(_VARIANCE, "+ ε"))), "+ β"),
    "output.logits": _math(*_LOGITS),
    "output.logits_with_bias": _math(*_LOGITS, "+ b"),
    "output.own_logits": _math(*_LOGITS),
    "output.copy_keys": _math("c = m", _sup(_sub("W", "copy"), _TRANSPOSED)),
    "output.copy_products": _math("h", _sup("c", _TRANSPOSED)),
    "output.copy_scores": _math("u =", _over(_row("h", _sup("c", _TRANSPOSED)), _root(_D_MODEL))),
    "output.logits_with_copies": _math(
        "log (", _sup("e", _sub("z", "v")), "+", _sum(_row(_sub("x", "s"), "= v")), _sup("e", _sub("u", "s")), ")"
    ),
    "output.log_probs": _math("log p = z − log", _sum("v"), _sup("e", _sub("z", "v"))),
    "output.smoothed_targets": _math("q =", _row("( 1 − ε )"), "onehot +", _over("ε", "V")),
    "output.losses": _math("L = −", _sum("v"), _sub("q", "v"), "log", _sub("p", "v")),
    "edit.overwrite": _math("edited"),
}
"""Name in catalogue.toml -> MathML. x is the input of the sublayer; m is x in self-attention, the memory in cross."""
