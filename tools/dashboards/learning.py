"""Learning health: whether the workers' contributions and the merged updates make sense."""

from panels import *


def dashboard():
    fates = s("worker_pushes_total")
    return board("learning", "Learning health",
                 "Whether signals, momentum and updates make sense, and replicas stay equal.", [
        row("Loss"),
        lines("Training loss of each worker", "The mean over the steps of the round so far. Workers on the "
              "same kind of data should lie close together. A line that ends may be of a worker whose loss was "
              "no number any more: it ends at once, and is counted in "
              "*Losses that were no number*.",
              [target(s("worker_train_loss"), "{{worker}}")], unit="none"),
        lines("Training and validation loss", "Of the whole run, round by round.",
              [target(s("coordinator_train_loss"), "training"),
               target(s("coordinator_validation_loss"), "validation")], unit="none"),
        row("What is sent and what comes back"),
        lines("Signal", "L2 norm of the signal of each worker's last sync: how far its inner steps moved "
              "it. It jumps when the inner learning rate is too high, and falls with the schedule.",
              [target(s("worker_signal_norm"), "{{worker}}")], unit="short", width=8),
        lines("Momentum", "L2 norm of the momentum before what is sent leaves it. It settles at several "
              "times the signal's; one that keeps growing says that too little is sent (k, β).",
              [target(s("worker_momentum_norm"), "{{worker}}")], unit="short", width=8),
        lines("Sent", "L2 norm of what each worker's last sync has sent, as the shard sees it.",
              [target(s("worker_sent_norm"), "{{worker}}")], unit="short", width=8),
        lines("Share of the momentum that is sent", "Energy of what a sync sends by that of the momentum "
              "that it is chosen from. The rest stays in the residual for later rounds.",
              [target(f'({s("worker_sent_norm")} / {s("worker_momentum_norm")}) ^ 2', "{{worker}}")],
              unit="percentunit", low=0, width=8),
        lines("Merged update", "L2 norm of the merged update of the last sync. It is the same for all "
              "workers that are in the same round.",
              [target(s("worker_update_norm"), "{{worker}}")], unit="short", width=8),
        lines("Own and merged", "Cosine between what each worker has sent and the merged update, of one "
              "segment a sync: 1 where all say the same, around the root of 1/n where n workers say things "
              "of their own, 0 or less where the others pull elsewhere.",
              [target(s("worker_update_cosine"), "{{worker}}")], unit="none",
              limits=(RED, (0, YELLOW), (0.1, GREEN)), low=-1, high=1, width=8),
        lines("Held back by the shards", "L2 norm of what the shards hold back for later rounds.",
              [target(s("shard_residual_norm"), "shard {{shard}}")], unit="short", low=0, width=8),
        lines("Learning rate", "Of the inner optimizer at the last step.",
              [target(s("worker_learning_rate"), "{{worker}}")], unit="sci", low=0, width=8),
        lines("Gradient", "L2 norm of the last step's gradient before clipping.",
              [target(s("worker_gradient_norm"), "{{worker}}")], unit="short", low=0, width=8),
        row("What became of it"),
        lines("Contributions", "Contributions of segments a second by what became of them: in their "
              "round's merge, back in the residual for a later one (`late`), or known to nobody.",
              [target(total(rate(fates), "fate"), "{{fate}}")], unit="cps", stacked=True, low=0, width=8),
        lines("Clipped", "Contributions a second that were merged with less than their weight "
              "(`sync.clip`), since their norm was far beyond the others'.",
              [target(rate(s("shard_pushes_clipped_total")), "shard {{shard}}")], unit="cps",
              limits=(GREEN, (0.1, YELLOW)), low=0, width=8),
        lines("Replicas", "1 if the workers' replicas differed after the last finished round; and replicas "
              "that were told to fetch segments anew, in each interval. Both are 0 in health.",
              [target(s("coordinator_replicas_unequal"), "unequal"),
               target(increase(s("coordinator_repairs_total")), "repairs")], unit="none",
              limits=(GREEN, (1, RED)), low=0, width=8),
        lines("Losses that were no number", "Losses of workers that were infinite or not a number, in each interval. Each "
              "is the end of the worker that had it.",
              [target(increase(s("coordinator_losses_not_finite_total")), "{{loss}}")], limits=(GREEN, (1, RED)), low=0,
              width=8),
    ], variables=(WORKER, SHARD))
