"""RecoverSAT: semi-autoregressive machine translation.

>>> from recoversat import Translator
>>> Translator(source="en", target="de").translate(["Good morning!"])[0].text  # Translator("model/") for your own
'Guten Morgen!'
"""

from typing import TYPE_CHECKING, Any

from recoversat.errors import UserError

__version__ = "0.1.0"
__all__ = ["Segment", "Translation", "Translator", "UserError", "__version__"]

if TYPE_CHECKING:
    from recoversat.inference.translation import Segment, Translation
    from recoversat.translator import Translator


def __getattr__(name: str) -> Any:
    if name == "Translator":  # imported when first used: `recoversat --help` stays instant
        from recoversat.translator import Translator

        return Translator
    if name in ("Segment", "Translation"):
        from recoversat.inference import translation

        return getattr(translation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
