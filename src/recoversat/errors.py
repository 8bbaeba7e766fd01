"""The one exception whose message is meant for the person at the keyboard."""


class UserError(Exception):
    """Say what is wrong with the input and how to mend it; shown without a traceback."""
