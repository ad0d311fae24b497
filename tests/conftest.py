"""Signals as in a terminal: whoever starts the tests with `nohup` or in the background has them ignored, and so would
every process that a test starts and then interrupts."""

import signal

for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (getattr(signal, "SIGHUP", None), signal.SIG_DFL),
):
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
