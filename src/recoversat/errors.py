"""The one exception whose message is meant for a person: at the keyboard, or reading a program's log."""


class UserError(ValueError):
    """Say what is wrong with the input and how to mend it; shown without a traceback."""
