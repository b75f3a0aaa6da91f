"""Where a run and this worker of it are."""

from longwave import _library
from longwave._member import Member


class RunState:
    """Of a member, and after its end as it was last."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._closed = False

    @property
    def step_number(self) -> int:
        """The run's next inner step."""
        return int(self._figures().step)

    @property
    def steps(self) -> int:
        """The run's inner steps."""
        return int(self._member.run.steps)

    @property
    def round(self) -> int:
        """The round of the next step."""
        return int(self._figures().round)

    @property
    def rounds(self) -> int:
        """The run's rounds; with sync.inner_steps auto, as many as it will have if the interval stays."""
        return int(self._figures().rounds)

    @property
    def inner_steps(self) -> int:
        """The inner steps of the next step's round, H. With sync.inner_steps auto another round may have another."""
        return int(self._figures().inner_steps)

    @property
    def members(self) -> int:
        """The run's members, this worker included. Of a node's ranks rank 0 alone knows; the others have 0."""
        return int(self._figures().members)

    @property
    def bytes(self) -> int:
        """Bytes sent and received by this worker's data connections."""
        figures = self._figures()
        return int(figures.bytes_pushed + figures.bytes_pulled)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step, by train.* of the run's configuration; the loop's optimizer may have
        another."""
        return float(self._figures().learning_rate)

    @property
    def worker(self) -> int:
        """The worker's index in the run, for a seed of its own for example."""
        return int(self._figures().worker)

    @property
    def writes_weights(self) -> bool:
        """Whether the run is over and this worker is to save its last weights. Equal at all ranks of a node."""
        return bool(self._figures().writes_weights)

    @property
    def configuration(self) -> str:
        """The run's configuration, as YAML."""
        return self._configuration if self._closed else self._member.configuration()

    def _figures(self) -> _library.Figures:
        return self._last_figures if self._closed else self._member.figures()

    def _note_last(self) -> None:
        self._last_figures = self._member.figures()
        self._configuration = self._member.configuration()
        self._closed = True
