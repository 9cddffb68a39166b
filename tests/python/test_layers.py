"""Models from methods: every layer is one, and gives what its text gives; mistakes are reported where they are made."""

import inspect

import penstock as ps
import tap
from penstock import _core

L = ps.layers
BRANCH = L.conv(4, 3, pad="same", bias=False).batchnorm(eps=0.001)

# A chain by methods, and its text.
CHAINS = [
    (L.conv(8, 3, "relu", stride=2, pad=1, bias=False, name="first").batchnorm(momentum=0.9), "conv 8 3 relu stride=2 pad=1 bias=false name=first | batchnorm momentum=0.9"),
    (L.conv(filters=6, size=1, groups=3, dilation=2).dwconv(3, pad="same").sepconv(4, 3, activation="gelu"), "conv 6 1 groups=3 dilation=2 | dwconv 3 pad=same | sepconv 4 3 gelu"),
    (L.relu().relu6().leaky().gelu().silu().sigmoid().tanh(), "relu | relu6 | leaky | gelu | silu | sigmoid | tanh"),
    (L.maxpool(2).avgpool(3, stride=2, pad="same").layernorm().globalavgpool().softmax(), "maxpool 2 | avgpool 3 stride=2 pad=same | layernorm | globalavgpool | softmax"),
    (L.dropout(0.25).flatten().dense(16, "relu").fakequant(weight_bits=8).dense(3, bias=False), "dropout 0.25 | flatten | dense 16 relu | fakequant weight_bits=8 | dense 3 bias=false"),
    (L.conv(4, 1).residual(BRANCH, activation="relu").residual("conv 2 1", L.conv(2, 1), name="sum"), f"conv 4 1 | residual relu ( {BRANCH} ) | residual name=sum ( conv 2 1 )( conv 2 1 )"),
    (L.repeat(2, L.conv(4, 1).repeat(3, "relu")).concat("", L.conv(2, 1), L.maxpool(1)).add(L, BRANCH.conv(10, 1)),
     f"repeat 2 ( conv 4 1 | repeat 3 ( relu ) ) | concat( )( conv 2 1 )( maxpool 1 ) | add( )( {BRANCH} | conv 10 1 )"),
    (ps.Layers("resnet20:7").softmax(), str(ps.Layers("resnet20:7")) + " | softmax"),
]


def test_methods_and_text():
    used = set()
    for chain, text in CHAINS:
        assert chain == ps.Layers(text), (chain, text)
        chain, text = chain.flatten().dense(2), f"{text} | flatten | dense 2"
        made, read = ps.Model(chain, input=(32, 32, 3)), ps.Model(text, input=(32, 32, 3))
        assert made.text == read.text == str(chain) and made.summary(2) == read.summary(2)
        used |= {kind for _, kind, *_ in made._graph.layers()} | {entry[0] for entry in _core.layers() if entry[0] in text}
    assert used >= {entry[0] for entry in _core.layers()}, used


def test_signatures_are_those_of_the_declarations():
    for name, doc, example, params, positional, fewest, most in _core.layers():
        method = getattr(ps.Layers, name)
        found = list(inspect.signature(method).parameters.values())[1:]
        assert {p.name for p in found} - {"chains"} == {param[0] for param in params} and ("chains" in {p.name for p in found}) == (most > 0), name
        required = {p.name for p in found if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
        assert required == {param[0] for param in params if param[2] is None}, name
        if not most:
            assert sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in found) == min(positional, len(params)), name
        assert method.__doc__.startswith(doc) and example in method.__doc__


def raises(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), f"{error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_mistakes_name_their_place():
    error = raises(ps.Error, "activation cannot be rel; did you mean relu?", lambda: L.conv(8, 3, "rel"))
    assert error.status == "PST_EINVAL" and error.offset == 33 and "^^^^^" in str(error)
    raises(ps.Error, "size is 0", lambda: L.conv(8, 0))
    raises(ps.Error, "concat takes 2 to 16 chains", lambda: L.concat(L.relu()))
    raises(ps.Error, "missing between these", lambda: L.residual(L))
    raises(ps.Error, "there is no layer cov", lambda: L.repeat(2, "cov 3"))
    raises(ValueError, "embedded null", lambda: L.repeat(2, "relu\0garbage"))
    raises(TypeError, "size=1.5; expected a whole number", lambda: L.conv(8, 1.5))
    raises(TypeError, "missing 1 required positional argument: 'size'", lambda: L.conv(8))
    raises(TypeError, "not int", lambda: L.repeat(2, 3))
    raises(TypeError, "not NoneType", lambda: ps.Layers(None))
    raises(ps.Error, "there is no layer in the text", lambda: ps.Model(L, input=(2,)))
    error = raises(ps.Error, "takes an image", lambda: ps.Model(L.flatten().conv(8, 3), input=(8, 8, 3)))
    assert error.offset == len("flatten | ") and "flatten | conv 8 3" in str(error)


def test_chains_do_not_change():
    base = L.conv(8, 3)
    a, b = base.relu(), base.tanh()
    assert (str(base), str(a), str(b), str(L)) == ("conv 8 3", "conv 8 3 | relu", "conv 8 3 | tanh", "") and a != b and len({a, b, base.relu()}) == 2
    assert repr(a) == "penstock.Layers('conv 8 3 | relu')" and a and not L and ps.Layers(a) == a


if __name__ == "__main__":
    tap.main(globals())
