"""What the process imports from which commands are forked: all that a command may need, and the language detector."""

import gc
from importlib import import_module
from pkgutil import walk_packages

import recoversat
from recoversat.text.languages import LanguageDetector

OTHERS = [
    "torch",
    "torch._dynamo",
    "matplotlib.figure",
    "onnxruntime",
    "sacrebleu",
    "sentencepiece",
    "typer._adapters",
    "tests.system.forking",
]
NOT_YET = ("__main__", "ray_pool")  # Ray starts threads, and reads its environment when it is imported

for name in OTHERS:
    import_module(name)
for module in walk_packages(recoversat.__path__, "recoversat."):
    is_python = all(map(str.isidentifier, module.name.split(".")))  # the engine in C++ is no module, but a library
    if is_python and not module.name.endswith(NOT_YET):
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:  # of what only some machines have
            if str(error.name).startswith("recoversat"):
                raise
LanguageDetector(["en"])
gc.freeze()  # what is here already need not be copied into every fork
