"""Shapes in signatures, written as jaxtyping annotations: tests check them at each call.

The package never pays for them; it imports the names of jaxtyping under TYPE_CHECKING only. Three steps make them real.

1. The names are found through the builtins, where every module looks last. (To set `typing.TYPE_CHECKING` instead
   would reach into all libraries imported meanwhile, and load torch for tests that need none.)
2. An import hook decorates each function and each dataclass of the modules. The hook of jaxtyping does the same, but
   binds the arguments of each call and checks them twice, in functions without a shape too, which costs several times
   what a small model does.
3. Only hints with a shape are checked. The others are mypy's work; some, like Self, cannot be checked at run time.

The answer depends on the kinds, shapes and types of numbers of the arguments and the result alone. So each function is
checked once for all calls that are alike in them, which are most: the steps of a search, for instance.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf
from beartype.door import die_if_unbearable

KINDS = ("Bool", "Float", "Int")
DECORATOR = "check_shapes"

_names_a_shape = re.compile(rf"\b({'|'.join(KINDS)})\[")
_CONFIGURATION = BeartypeConf(violation_type=jaxtyping.TypeCheckError, is_color=False)
_WITHOUT_SHAPE = frozenset((bool, float, int, type(None)))
_without_shapes: set[CodeType] = set()  # functions inside functions are decorated at each call of the outer one


def check_shapes(decorated: Any) -> Any:
    """Return a function that checks the shapes of its arguments and its result, if its hints have any."""
    if isinstance(decorated, type):
        if dataclasses.is_dataclass(decorated):
            decorated.__init__ = check_shapes(decorated.__init__)  # type: ignore[misc]
        return decorated
    if decorated.__code__ in _without_shapes:
        return decorated
    hints = {name: _resolve(hint, decorated) for name, hint in decorated.__annotations__.items()}
    decorated.__annotations__ = {name: hint for name, hint in hints.items() if has_shape(hint)}
    if not decorated.__annotations__:
        _without_shapes.add(decorated.__code__)
        return decorated
    hints, code = decorated.__annotations__, decorated.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    right: set[object] = set()  # kinds of arguments, and with them of results

    def check(values: dict[str, Any]) -> None:
        with jaxtyping.jaxtyped("context"):  # an axis has one size in one call
            for name, value in values.items():
                die_if_unbearable(value, hints[name], conf=_CONFIGURATION, exception_prefix=f"Shape of {name}: ")

    @functools.wraps(decorated)
    def call(*args: Any, **options: Any) -> Any:
        given = {name: value for name, value in (*zip(names, args, strict=False), *options.items()) if name in hints}
        alike = (*given, *map(_kind, given.values()))
        if alike not in right:
            check(given)
            right.add(alike)
        result = decorated(*args, **options)
        if "return" in hints and (both := (alike, _kind(result))) not in right:
            check(given | {"return": result})
            right.add(both)
        return result

    return call


def _kind(value: Any) -> object:
    """All of a value that its shape check depends on; equal to nothing else where that is unknown."""
    if (kind := type(value)) in _WITHOUT_SHAPE:
        return kind
    if (shape := getattr(value, "shape", None)) is not None:
        return kind, shape, value.dtype
    if isinstance(value, tuple | list):
        return kind, *map(_kind, value)
    return object() if hasattr(value, "__iter__") else kind


def has_shape(hint: Any) -> bool:
    """Whether a hint is or contains a shape."""
    is_shape = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_shape or any(has_shape(part) for part in get_args(hint))


class _Names(dict[str, Any]):
    """The names of a module, where one that is for type checkers only is Any, and an alias what it stands for."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        alias = getattr(value, "__origin__", value)
        if type(alias).__name__ != "TypeAliasType":  # NDArray is one from NumPy 2.5 on
            return value
        return alias.__value__ if alias is value else alias.__value__[value.__args__]

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _resolve(hint: Any, function: Callable[..., Any]) -> Any:
    """Return what a hint means, where it can have a shape."""
    if isinstance(hint, str):
        return eval(hint, {}, _Names(function.__globals__)) if _names_a_shape.search(hint) else None
    return hint


class _Loader(SourceFileLoader):
    """Loads a module with each function and class decorated. Byte code is neither read nor written."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.append(ast.copy_location(ast.Name(DECORATOR, ast.Load()), node))
            elif isinstance(node, ast.ClassDef):  # after @dataclass
                node.decorator_list.insert(0, ast.copy_location(ast.Name(DECORATOR, ast.Load()), node))
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the modules, and what is in them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = tuple(modules)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith(tuple(f"{module}." for module in self._modules)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install(modules: Sequence[str]) -> None:
    """Check the shapes of these modules, whenever they are imported from now on."""
    for kind in KINDS:
        setattr(builtins, kind, getattr(jaxtyping, kind))
    setattr(builtins, DECORATOR, check_shapes)
    sys.meta_path.insert(0, _Finder(modules))
