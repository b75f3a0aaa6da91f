"""Workers and GPUs: the use of each one's time and machine."""

from panels import *

STATES = ["starting", "joining", "training", "syncing", "validating", "done", "failed"]
STATE_NAMES = [("starting", GREY), ("joining", YELLOW), ("training", GREEN), ("syncing", BLUE),
               ("validating", PURPLE), ("done", "dark-blue"), ("failed", RED)]
MINE = 'worker=~"$worker"'


def dashboard():
    gpu = s("worker_gpu_memory_bytes")
    gpu_free = s("worker_gpu_memory_bytes", 'state="free"')
    return board("workers", "Workers and GPUs", "What each worker does with its time and its machine.", [
        row("What they do"),
        states("State", "What each worker did when, as it said so itself at each scrape.",
               target(one_hot("worker_state", "state", STATES, "worker"), "{{worker}}"), STATE_NAMES),
        lines("Time by phase", "Time of the shown workers, by phase. `wait` is for merged "
              "updates: links and other members. On a GPU, what is enqueued shows where it is waited for.",
              [target(total(rate(s("worker_phase_seconds_total")), "phase"), "{{phase}}")],
              unit="percentunit", share=True),
        lines("Compute share", "Share of each worker's time in which it computed, of what it computed and "
              "synced since it began.",
              [target(s("worker_compute_ratio"), "{{worker}}")], unit="percentunit",
              limits=(RED, (0.5, YELLOW), (0.8, GREEN)), low=0, high=1),
        row("How fast"),
        lines("Tokens a second", "Tokens that each worker trains on each second, syncs included.",
              [target(rate(s("worker_tokens_total")), "{{worker}}")], low=0, width=8),
        lines("Time of an inner step", "Mean time of a step of each worker, without syncs.",
              [target(mean(s("worker_step_seconds"), "worker"), "{{worker}}")], unit="s", low=0, width=8),
        density("Time of inner steps", "How the steps of the workers that are shown were spread over "
                "durations.", s("worker_step_seconds"), width=8),
        lines("Model FLOPs utilisation", "Floating point operations of the model's forward and backward passes a second, by "
              "those that each worker's processors can do (`metrics.peak_tflops` of each rank; without that key there is nothing here, "
              "nor for a model of one's own). Syncs and all waiting count against it.",
              [target(f'{total(rate(s("worker_model_flops_total")), "worker")} / '
                      f'({total(s("worker_peak_flops"), "worker")})', "{{worker}}")],
              unit="percentunit", low=0, width=8),
        lines("Encode and decode", "Share of the time of each worker that went to encoding what it sends "
              "and to decoding and applying what comes back.",
              [target(total(rate(s("worker_phase_seconds_total", 'phase=~"encode|decode"')), "worker"),
                      "{{worker}}")], unit="percentunit", limits=(GREEN, (0.05, YELLOW)), low=0, width=8),
        lines("Waiting", "Share of the time of each worker in which it waited for merged updates.",
              [target(rate(s("worker_phase_seconds_total", 'phase="wait"')), "{{worker}}")],
              unit="percentunit", limits=(GREEN, (0.25, YELLOW), (0.5, RED)), low=0, width=8),
        lines("Making batches", "Share of the time of each worker that went to data. It should be next to "
              "nothing; else the disk or the tokenizer holds the worker up.",
              [target(rate(s("worker_phase_seconds_total", 'phase="data"')), "{{worker}}")],
              unit="percentunit", limits=(GREEN, (0.05, YELLOW)), low=0, width=8),
        row("Inside nodes"),
        lines("Ranks", "Processes that are each worker, each with a device: several of a node.",
              [target(s("worker_ranks"), "{{worker}}")], low=0, width=8),
        lines("Meetings of ranks", "Mean time of a meeting of a node's ranks, after every step and while it waits: their link, "
              "and the wait for the last of them. Far below a millisecond is usual; much more, where steps are slow as well, "
              "is a link or a rank that is slow.",
              [target(mean(s("worker_meeting_seconds"), "worker"), "{{worker}}")], unit="s", low=0, width=8),
        row("Their machines"),
        lines("GPU memory", "Memory of each worker's GPUs that is in use, by anybody. Workers on CPUs have "
              "none.", [target(s("worker_gpu_memory_bytes", 'state="used"'), "{{worker}}")],
              unit="bytes", low=0, width=8),
        lines("GPU memory free", "Share of each worker's GPU memory that is free.",
              [target(f"{total(gpu_free, 'worker')} / {total(gpu, 'worker')}", "{{worker}}")],
              unit="percentunit", limits=(RED, (0.03, YELLOW), (0.1, GREEN)),
              low=0, high=1, width=8),
        lines("CPU", "Processors that each worker's process keeps busy, of a node rank 0.",
              [target(rate(process("process_cpu_seconds_total", MINE)), "{{worker}}")], low=0, width=8),
        lines("Memory", "Memory of each worker's process that is in RAM, of a node rank 0.",
              [target(process("process_resident_memory_bytes", MINE), "{{worker}}")], unit="bytes", low=0,
              width=8),
        lines("Open files", "File descriptors of each worker's process, as a share of those that it may "
              "have.", [target(f'{process("process_open_fds", MINE)} / '
                               f'{process("process_max_fds", MINE)}', "{{worker}}")],
              unit="percentunit", limits=(GREEN, (0.8, RED)), low=0, width=8),
        lines("Cost of being scraped", "Share of the time of each worker's threads that went to pages of "
              "metrics.", [target(rate(process("longwave_scrape_seconds_total", MINE)), "{{worker}}")],
              unit="percentunit", limits=(GREEN, (0.005, YELLOW)), low=0, width=8),
        row("Coming back"),
        lines("Age of the last checkpoint", "Time since each worker has written a checkpoint: what it "
              "would lose of its residual in a crash.",
              [target(s("worker_checkpoint_age_seconds"), "{{worker}}")], unit="s", low=0, width=8),
        lines("Catching up and repairs", "Times that each worker has caught up with a run that was ahead, "
              "the inner steps of the run that it has left out because it was behind, and that it has fetched "
              "segments anew because its replica differed, in each interval.",
              [target(increase(s("worker_catch_ups_total")), "{{worker}} caught up"),
               target(increase(s("worker_skipped_steps_total")), "{{worker}} steps left out"),
               target(increase(s("worker_repairs_total")), "{{worker}} repaired")], low=0, width=8),
        lines("Silence of the coordinator", "Time since the coordinator has answered each worker. Training "
              "goes on and rounds end meanwhile; no member comes or goes.",
              [target(s("worker_coordinator_silence_seconds"), "{{worker}}"), lost_after()], unit="s", low=0, width=8),
        grid("Workers", "Each worker and its machine now.", ["worker"], [
            ("Tokens since it started", total(s("worker_tokens_total"), "worker"), "short", None),
            ("Tokens a second", total(rate(s("worker_tokens_total")), "worker"), "short", None),
            ("Compute share", total(s("worker_compute_ratio"), "worker"), "percentunit",
             (RED, (0.5, YELLOW), (0.8, GREEN))),
            ("Processors", total(rate(process("process_cpu_seconds_total", MINE)), "worker"), "short",
             None),
            ("Memory", total(process("process_resident_memory_bytes", MINE), "worker"), "bytes", None),
            ("Running for", f'time() - max by (worker) ({process("process_start_time_seconds", MINE)})',
             "dtdurations", None),
        ], TO_WORKER),
    ], variables=(WORKER,))
