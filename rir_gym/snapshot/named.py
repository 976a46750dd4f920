"""What the code of an environment can name besides the instance: the state of a class, a closure, a module.

Starting from classes it follows the names that stand in the code of their methods: variables of closures, default
values, attributes of functions, globals, and through globals further functions, classes and modules, as long as they
are the environment's own. What making, closing and drawing an object names is left out: what a constructor takes from
there stands in the fields of what it made. Nothing is called and no attribute is looked up past a ``__dict__``. This
module knows no walk over objects and no mechanism.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from rir_gym.snapshot.transparency import module_of

__all__ = ["Code"]

_INSTALLED = ("site-packages", "dist-packages")
_NOT_OWN = frozenset({*sys.stdlib_module_names, "gymnasium", "numpy", "rir_gym", "?"})
_APART = frozenset({"__init__", "__new__", "__del__", "close", "render", "_abc_impl", "_abc_cache", "_abc_registry"})
_FIXED = (types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType)


class Code:
    """The code that classes lead to, each piece once. ``own``: the classes whose packages are the environment's."""

    def __init__(self, own: Iterable[type]) -> None:
        self._packages = {_package(module_of(cls)) for cls in own} - _NOT_OWN
        self._seen: dict[int, Any] = {}
        self._owned: dict[str, bool] = {}

    def reached(self, things: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """(path, value) of what the code of these classes, modules and functions names, and was not met before."""
        stack = [("", thing) for thing in things]
        while stack:
            path, thing = stack.pop()
            if isinstance(thing, staticmethod | classmethod):
                thing = thing.__func__
            while isinstance(thing, functools._lru_cache_wrapper):
                thing = thing.__wrapped__
            if not isinstance(thing, type | types.FunctionType | types.ModuleType | property):
                if not isinstance(thing, _FIXED):
                    yield path, thing
                continue
            if id(thing) in self._seen or (isinstance(thing, types.ModuleType) and path != ""):
                continue
            self._seen[id(thing)] = thing
            if isinstance(thing, types.FunctionType):
                stack.extend(self._function(thing))
            elif isinstance(thing, property):
                stack.extend((path, part) for part in (thing.fget, thing.fset, thing.fdel) if part is not None)
            elif isinstance(thing, type):
                stack.extend(self._class(thing))
            elif self.owns(thing.__name__):  # an object holds it: all of it is within reach
                stack.extend(_plain(f"module {thing.__name__}", vars(thing)))

    def owns(self, module: Any) -> bool:
        """Whether a module is of a package of the environment, or at least not an installed one."""
        if type(module) is not str:
            return False
        if module not in self._owned:
            package = _package(module)
            file = getattr(sys.modules.get(module), "__file__", None)
            apart = isinstance(file, str) and any(part in file for part in _INSTALLED)
            self._owned[module] = package in self._packages or (package not in _NOT_OWN and not apart)
        return self._owned[module]

    def _class(self, cls: type) -> Iterator[tuple[str, Any]]:
        for base in (*cls.__mro__, type(cls)):
            if base is not cls:
                yield "", base
        if self.owns(module_of(cls)):
            yield from _plain(f"class {cls.__qualname__}", vars(cls))

    def _function(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if not self.owns(function.__module__):
            return
        path = f"{function.__module__}.{function.__qualname__}"
        free = function.__code__.co_freevars
        yield from ((f"{path}.<{name}>", cell) for name, cell in zip(free, function.__closure__ or (), strict=True))
        yield from ((f"{path}.defaults[{i}]", value) for i, value in enumerate(function.__defaults__ or ()))
        yield from ((f"{path}.defaults[{name!r}]", value) for name, value in (function.__kwdefaults__ or {}).items())
        yield from ((f"{path}.{name}", value) for name, value in vars(function).items())
        names = set(_names(function.__code__))
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            yield from self._global(f"module {function.__module__}.{name}", value, names)

    def _global(self, path: str, value: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
        if not isinstance(value, types.ModuleType):
            yield path, value
        elif self.owns(value.__name__):
            for name in sorted(names & vars(value).keys()):
                inner = vars(value)[name]
                if not isinstance(inner, types.ModuleType):
                    yield f"module {value.__name__}.{name}", inner


def _package(module: str) -> str:
    return module.partition(".")[0]


def _plain(path: str, held: Any) -> Iterator[tuple[str, Any]]:
    own = [name for name in held if not name.startswith("__") or isinstance(held[name], types.FunctionType)]
    return ((f"{path}.{name}", held[name]) for name in sorted(own) if name not in _APART)


def _names(code: types.CodeType) -> Iterator[str]:
    stack = [code]
    while stack:
        code = stack.pop()
        yield from code.co_names
        stack.extend(part for part in code.co_consts if isinstance(part, types.CodeType))
