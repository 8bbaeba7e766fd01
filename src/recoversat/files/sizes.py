"""Sizes as people write them."""

import typer


def parse_bytes(text: str) -> int:
    """Read a size in bytes, as pydantic understands it: 512M, 2GB, 1.5GiB."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is no size; write e.g. 512M or 2G")
    return size
