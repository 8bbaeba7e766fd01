"""RecoverSAT: semi-autoregressive machine translation.

>>> from recoversat import Translator
>>> Translator(source="en", target="de").translate(["Good morning!"])[0].text  # Translator("model/") for your own
'Guten Morgen!'
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "__version__"]

if TYPE_CHECKING:
    from recoversat.inference.translation import Translation
    from recoversat.translator import Translator


def __getattr__(name: str) -> Any:
    if name in ("Translator", "Translation"):  # imported when first used: `recoversat --help` stays instant
        from recoversat import translator

        return getattr(translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
