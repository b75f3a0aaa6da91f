"""A worker of a run around a PyTorch model and its optimizer."""

import contextlib
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union

import torch

from longwave import _library
from longwave._alike import alike_of
from longwave._errors import STOPPED, STATUS_NAMES, LongwaveError
from longwave._earlier import forget, leave_earlier, remember
from longwave._keep import Keeps, check_keep, check_loadable
from longwave._loop import IN_HOOK, Loop
from longwave._loss import NotedLoss
from longwave._member import Hooks, Member, heartbeat_timeout_s
from longwave._node import Node, is_of_a_rank, node_of
from longwave._owned import StrangerWatch, check_owned
from longwave._place import place_of
from longwave._replica import Replica, check_alias, is_sharded, trained_parameters, warn_of_buffers
from longwave._replicated import ReplicatedReplica
from longwave._run_state import RunState
from longwave._sharded import ShardedReplica, check_shards
from longwave._steps import StepWatch, hook_passes, hook_steps
from longwave._termination import unwatch, watch
from longwave._warning import warn
from longwave._weights import CopyWatch, hook_loads
from longwave.optimizer import check_optimizer


class Sync(RunState):
    """Joins a run on construction: the model's parameters are the run's from then on.

    In a process group of several ranks (torchrun) these are one worker together: all make the same calls, with the
    same arguments, each with its own losses and tokens. The model is whole at each rank (DistributedDataParallel), or
    divided by fully_shard.

    model       its trained parameters (fp32 or bf16, on the CPU or one GPU) are synced: tied ones once, frozen ones not
    optimizer   a hook after its step() counts steps, and syncs when the run's method does; of several the one that
                steps last. None, or hook=False: the loop calls Sync.step itself, as one must whose optimizer has no
                step() or several (SAM's first_step and second_step). Runs that sync gradients need a longwave.Optimizer
    address     "host:port" of the coordinator [$LONGWAVE_COORDINATOR]
    name        of this worker, which no other live worker has [$LONGWAVE_NAME, or the host's name, with the process's number
                if it keeps no state; of several ranks, rank 0's]
    token       of `longwave token create`, for a secured run; needed once for each state_dir [$LONGWAVE_TOKEN]
    state_dir   folder of identity, credentials and checkpoints, with which a worker resumes [$LONGWAVE_STATE_DIR;
                none: the worker keeps no state]
    keep        by name: optimizer, schedule, loader, any object with state_dict and load_state_dict. Checkpoints in
                state_dir have their states, and the constructor loads the last one: tensors and plain values
    on_move     called with the number of steps by which the loop's work after optimizer.step() is behind the run, for
                example to advance a schedule. This worker does not take these steps: it was away or behind, or a
                checkpoint was written in the middle of one. Negative where the run takes steps again that the kept
                states have seen, since all workers had stopped: a schedule is ahead by so many
    alias       the parameters become views of the flat array that is synced, which saves a copy of it; fp32 only, and
                not under fully_shard
    alike       by name: what all workers must have alike beside the model, a tokenizer's text for example. A worker that has
                something else, or other frozen parameters, is refused when it joins
    tokens      of a step, its weight in the merge, unless step() or note() say [train.batch × model.context]
    settings    of this worker alone, "key=value", with the keys of docs/reference/configuration.md
    metrics     "host:port" of this worker's /metrics ["$LONGWAVE_METRICS", or the run's metrics.listen]

    Signal handlers, Ctrl-C's among them, run while a call waits. Without another handler SIGTERM ends training: `done`
    is true after the step under way, with a checkpoint. Not thread-safe.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optional[torch.optim.Optimizer] = None,
        address: Optional[str] = None,
        *,
        name: Optional[str] = None,
        token: Optional[str] = None,
        state_dir: Optional[str] = None,
        keep: Optional[Mapping[str, Keeps]] = None,
        on_move: Optional[Callable[[int], Any]] = None,
        alias: bool = False,
        alike: Optional[Mapping[str, Union[str, bytes]]] = None,
        tokens: Optional[int] = None,
        settings: Iterable[str] = (),
        metrics: Optional[str] = None,
        hook: bool = True,
    ) -> None:
        trained = trained_parameters(model)
        shards = any(map(is_sharded, trained.values()))
        if alias:
            check_alias(trained)
        keep = dict(keep or {})
        check_keep(keep)
        check_loadable(keep)
        check_owned(optimizer, trained, hook)
        self._node = node_of(shards)
        if shards and self._node is not None:
            check_shards(trained, self._node)
        self._loop = Loop(keep, optimizer, self._node, shards)
        self._on_move = on_move
        self._tokens = int(tokens or 0)
        self._step_tokens: Optional[int] = None
        self._loss = NotedLoss()
        self._is_hooked = optimizer is not None and hook
        self._hooks: List[torch.utils.hooks.RemovableHandle] = []
        self._was_late = self._has_result = False
        self._done = False
        self.moved = False
        place = place_of(address, name, token, state_dir, metrics, [f"train.threads={torch.get_num_threads()}", *settings])
        same = alike_of(model, alike or {})
        shapes = [(name, tuple(parameter.shape)) for name, parameter in trained.items()]
        if self._node is not None:
            place = self._node.agree(place, shapes, keep)
        leave_earlier(place)
        try:
            hooks = Hooks(self._loop.save, self._loop.gradient_ready)
            super().__init__(Member(place, shapes, hooks, self._node, same))
        except LongwaveError as error:
            raise error.with_traceback(None)  # the sentence says it, and the way to it in here says nothing more
        # Without finish(), this worker leaves the run when the object is dropped, or the process exits.
        self._finalizer = weakref.finalize(self, _drop, self._member, self._loop)
        try:
            self._begin(list(trained.values()), alias, place.coordinator)
        except BaseException as error:
            # The run was over before this worker had caught up, or it is to end: finish() has the reason.
            if not _is_stop(error):
                self._abandon(self._failure(error))
                raise
            self._done = True
            warn("this worker ends before it had the run's model: its parameters are its own", "end", self._member)
        warn_of_buffers(model, self._member)
        self._strangers = StrangerWatch(model, optimizer, trained.values(), self._member)
        self._strangers.look()
        self._copies = CopyWatch(None if self._sends_gradient else optimizer, trained.values(), self._member)
        self._watch = StepWatch(self._replica, self._member, optimizer if hook else None, self._takes_gradient)
        self._hooks = [*hook_passes(self._replica.parameters, self._watch), *hook_loads(model, self)]
        if optimizer is not None and hook:
            self._hooks.append(hook_steps(optimizer, self._take_step))
        watch(self._member, self._watch)
        remember(self, place)

    def _begin(self, parameters: List[torch.nn.Parameter], alias: bool, coordinator: str) -> None:
        run = self._member.run
        self._takes_gradient = bool(run.takes_gradient)
        self._sends_gradient = bool(run.sends_gradient)
        check_optimizer(self._loop.optimizer, self._sends_gradient, self._takes_gradient)
        self._replica = self._make_replica(parameters, alias)
        self._loop.replica = self._replica
        self._replica.give_cache_back()
        with self._replica.on_device():
            events = self._member.begin(*self._replica.addresses())
        if events & _library.OVER:  # the worker has caught up with a run that is over, or has come after its end
            self._take(events)
            if not self.moved:
                warn(
                    "the run is finished: the parameters are this process's own, not the run's. `longwave weights "
                    f"{coordinator} --out FILE` says where the run's weights are",
                    "end",
                    self._member,
                )
            return
        self._loop.load(self._member)
        # In the middle of a loop's step, the states lack the loop's work after optimizer.step().
        unfinished = 1 if self._member.load(IN_HOOK) == b"1" else 0
        self._take(events, int(self._member.figures().skipped_steps) + unfinished)

    def _make_replica(self, parameters: List[torch.nn.Parameter], alias: bool) -> Replica:
        member, node, sends_gradient = self._member, self._node, self._sends_gradient
        if node is None:
            return Replica(parameters, member.offsets, member.run.parameters, sends_gradient, alias)
        node.set_patience(heartbeat_timeout_s(member.configuration()))
        owned = [member.owned(rank) for rank in range(node.ranks)]
        if self._loop.shards:
            return ShardedReplica(parameters, member.offsets, sends_gradient, node, owned)
        return ReplicatedReplica(parameters, member.offsets, member.run.parameters, sends_gradient, alias, node, owned)

    # Methods for the loop.

    @property
    def done(self) -> bool:
        """Whether this worker's part in the run is over."""
        if not self._done:
            self._strangers.refuse_adapters()
            self._watch.ask()
        return self._done

    def note(self, loss: Union[float, torch.Tensor], tokens: Optional[int] = None) -> None:
        """Takes the loss of the step that optimizer.step() counts next, for the live view and /metrics, and its tokens.
        Does not wait for a GPU."""
        self._loss.note(loss)
        if tokens is not None:
            self._step_tokens = int(tokens)
        self._watch.look()

    def step(self, loss: Union[None, float, torch.Tensor] = None, tokens: Optional[int] = None) -> None:
        """Counts an inner step, for loops without the hook. Syncs when the run's method does."""
        if self._is_hooked and not self._loop.in_hook:
            warn(
                "sync.step() counts a step beside the hook, which counts each optimizer.step(): wanted one of the two, or "
                "Sync(…, hook=False)",
                "counted twice",
                self._member,
            )
        self._replica.refuse_capture()
        self._watch.count()
        if self._done:
            self._warn_of_late_step()
            return
        self._copies.look()
        if loss is not None:
            self._loss.note(loss)
        weight = tokens if tokens is not None else self._step_tokens
        # The library takes 0 for "not said", which is a whole batch's; a step whose tokens are all masked has next to none.
        weight = self._tokens if weight is None else max(1, int(weight))
        self._strangers.refuse_adapters()
        if self._syncs:
            self._strangers.look()
        try:
            if self._sends_gradient:
                self._replica.gather_gradient()
            elif self._syncs:
                self._replica.gather()
            with self._replica.on_device():
                events = self._member.step(self._loss.of_step(), weight)
            if self._node is not None:
                self._node.limit_default_group()
            self._take(events, int(self._member.figures().skipped_steps) if events & _library.SKIPPED else 0)
        except BaseException as error:
            if not _is_stop(error):
                self._abandon(self._failure(error))
                raise
            self._end()  # finish() has the reason

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """`with sync.pause():` around work between two steps that takes longer than steps do, an evaluation for example.
        All ranks of a node call, and at its end wait for each other, so one of them may work alone. A rank that hangs in
        it is waited for; from one that raises the others hear, with a LongwaveError. A single process needs no pause."""
        if self._node is None or self._closed:
            yield
            return
        self._member.pause()
        self._node.lift_limit()
        try:
            yield
        except BaseException:
            self._node.await_all(has_failed=True)
            raise
        self._node.await_all()

    def finish(self) -> None:
        """Ends this worker's part. LongwaveError: the run has failed (with the reason), or goes on without this worker.
        Before the end of the run the worker leaves, with a checkpoint in its state_dir, and may return. If the loop has
        gone on after the end, the parameters are the run's again."""
        if self._closed:
            return
        try:
            if self._done:
                if self._was_late and self._has_result:
                    Replica.scatter(self._replica)  # without the other ranks: theirs are as complete
                with self._loop.on_device():
                    self._member.finish()
            else:
                _leave(self._member, self._loop)
        finally:
            self._close()

    def __enter__(self) -> "Sync":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Finishes. The coordinator receives an exception as this worker's failure, except Ctrl-C and exit."""
        if error is None:
            self.finish()
        else:
            self._abandon(self._failure(error))

    # Private methods.

    def _take(self, events: int, missed: int = 0) -> None:
        self._syncs = bool(events & _library.SYNCS)
        self.moved = bool(events & _library.MOVED)
        if events & _library.OVER:
            self._has_result = self.moved and not self._replica.alias
            self._end()
        self._step_tokens = None
        # An inner optimizer has changed the parameters themselves.
        if self.moved and not self._takes_gradient:
            self._replica.scatter()
        if missed != 0 and self._on_move is not None:
            self._on_move(missed)

    def _take_step(self) -> None:
        """The optimizer's hook."""
        self._loop.in_hook = True
        try:
            self.step()
        finally:
            self._loop.in_hook = False

    def _warn_of_late_step(self) -> None:
        self._was_late = True
        if not self._closed:
            state = "finish() puts the run's back" if self._has_result else "they are no longer the run's"
            warn(
                f"a step after the end has changed the parameters: {state}. `sync.done` is true, and every loop has to end: "
                "put `while not sync.done:` around all of them",
                "late step",
                self._member,
            )

    def _end(self) -> None:
        self._done = True
        if self._node is not None:
            self._node.lift_limit()

    def _failure(self, error: BaseException) -> Optional[str]:
        """The failure to report to the coordinator; None for Ctrl-C and exit, and where another rank of the node has
        ended or left: the node comes back."""
        if self._node is not None and is_of_a_rank(error):
            return None
        if isinstance(error, LongwaveError):
            return str(error)
        return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else None

    def _abandon(self, failure: Optional[str]) -> None:
        """Cleans up after an error, which the caller then raises."""
        if self._closed:
            return
        try:
            with self._loop.on_device():
                self._member.leave(failure)
        except LongwaveError:
            pass
        finally:
            self._close()

    def _close(self) -> None:
        self._done = True
        self._note_last()
        self._finalizer.detach()
        with self._loop.on_device():
            self._member.close()
        if self._node is not None:
            self._node.close()
        for hook in self._hooks:
            hook.remove()
        forget(self)
        unwatch(self._member)


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, LongwaveError) and error.status == STATUS_NAMES[STOPPED]


def _leave(member: Member, loop: Loop) -> None:
    """Raises LongwaveError."""
    step, steps = int(member.figures().step), int(member.run.steps)
    if step < steps:
        warn(
            f"the loop has ended at step {step} of the run's {steps} (run.steps): this worker leaves, and the run goes on "
            "without it",
            "left",
            member,
        )
    with loop.on_device():
        member.leave()


def _drop(member: Member, loop: Loop) -> None:
    try:
        _leave(member, loop)
    except LongwaveError:
        pass  # forked, or over
    with loop.on_device():
        member.close()
    unwatch(member)
