"""Joins this folder with the package `p4` of p4runtime, which has the modules of P4Runtime."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
