"""The error of a call of liblongwave.so."""

# lw_status of longwave.h.
STATUS_NAMES = {
    -1: "invalid",
    -2: "refused",
    -3: "unavailable",
    -4: "stopped",
    -5: "ended",
    -6: "data",
    -7: "memory",
    -8: "forked",
    -9: "internal",
}
UNAVAILABLE = -3
STOPPED = -4


class LongwaveError(RuntimeError):
    """status: one of invalid, refused, unavailable, stopped, ended, data, memory, forked, internal; longwave.h defines
    each."""

    __module__ = "longwave"  # where it is imported from

    def __init__(self, message: str, status: int = -9) -> None:  # unpickled without it; `status` follows
        super().__init__(message)
        self.status = STATUS_NAMES.get(status, "internal")
