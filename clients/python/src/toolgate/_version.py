"""The version of this library.

*Invariant:* a constant.
"""

__version__ = "0.1.0"
