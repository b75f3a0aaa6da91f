/* Longwave's worker for any training loop: the C interface of liblongwave.so.
 *
 *   lw_join     opens folder and credentials, fetches the configuration, lays out the parameters
 *   lw_begin    registers, waits for the run's start, sets the parameters to the run's present
 *   lw_step     after each inner step; syncs where the run's method wants it
 *   lw_finish   after lw_step has returned LW_OVER; lw_leave before
 *   lw_close    frees the member
 *
 * tests/abi/linear_model.c is a complete worker.
 *
 * Parameters are one flat array of fp32, which the caller owns. Tensor i begins at element
 * lw_offset(member, i), row-major. Between two lw_step calls only the caller changes the array.
 *
 * A call that fails returns an lw_status, which is negative, and lw_error gives the reason in one
 * sentence. One thread at a time may call for one member; any thread may call lw_stop, lw_warn,
 * lw_abi and lw_error, callbacks too. In a process forked from one that had joined a run every call
 * fails with LW_FORKED and has no effect.
 */
#ifndef LONGWAVE_H_
#define LONGWAVE_H_

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LW_API __attribute__((visibility("default")))

/* Incremented by every change that requires recompiling programs. Structs whose first member is
 * their size may grow at the end without one. */
#define LW_ABI 1
LW_API uint32_t lw_abi(void);        /* the library's LW_ABI */
LW_API const char* lw_version(void); /* "0.1.0" */

enum lw_status {
  LW_OK = 0,
  LW_INVALID = -1,     /* an argument, a setting, or a call out of turn */
  LW_REFUSED = -2,     /* by the coordinator: other model, other version, no right to join */
  LW_UNAVAILABLE = -3, /* no answer, or an absent device or file */
  LW_STOPPED = -4,     /* by lw_stop or an interrupt; the run may go on */
  LW_ENDED = -5,       /* the run failed, or goes on without this worker */
  LW_DATA = -6,        /* a loss or a parameter that is not finite; a damaged file */
  LW_MEMORY = -7,
  LW_FORKED = -8,
  LW_INTERNAL = -9
};

/* The error of the calling thread's last failed call; "" before the first. Valid until the thread's
 * next call. */
LW_API const char* lw_error(void);

/* Lines on standard error below this level are dropped. */
enum lw_log_level { LW_LOG_DEBUG = 0, LW_LOG_INFO = 1, LW_LOG_WARNING = 2, LW_LOG_ERROR = 3 };
LW_API int lw_set_log_level(int level);

typedef struct lw_member lw_member;
typedef struct lw_state lw_state;

/* Callbacks run inside lw_begin, lw_step and lw_leave on the caller's thread. Any may be NULL. */
typedef struct lw_callbacks {
  size_t size; /* sizeof(lw_callbacks) */
  void* context;
  /* Called for a checkpoint: the loop adds its state by lw_save, to restore it after a crash.
   * Nonzero: failed; the library then writes no checkpoint and logs a line. */
  int (*save)(void* context, lw_state* state);
  /* Called if lw_run has `takes_gradient`: `gradient` holds the merged gradient, and the inner
   * optimizer takes its step with it, on `theta`. Nonzero: failed, and the call fails. */
  int (*gradient_ready)(void* context);
  /* Called about twenty times a second while a call waits. Nonzero ends the call (LW_STOPPED). */
  int (*interrupted)(void* context);
} lw_callbacks;

/* One rank of a node: one of several processes of a machine, each with a device, that are one
 * worker of the run together. All ranks join with the same options and make the same calls in the
 * same order; each passes its own loss and tokens. A rank syncs the elements that lw_owned names,
 * and theta moves there alone: the loop brings them to the other ranks. */
typedef struct lw_node {
  size_t size; /* sizeof(lw_node) */
  uint32_t rank;
  uint32_t ranks; /* 1 to 64 */
  void* context;
  /* Fills `all` with `mine` of each rank, by rank: ranks times `bytes`. Called inside other calls,
   * by all ranks in the same order; inside lw_begin on another thread than the caller's, which
   * waits. seconds: how long the others may take. Nonzero: a rank has ended or is
   * late; the member's call then fails with LW_UNAVAILABLE. */
  int (*all_gather)(void* context, const void* mine, size_t bytes, void* all, double seconds);
} lw_node;

/* What all workers must have alike beside the tensors, since no sync makes it so: frozen weights, a
 * tokenizer. The coordinator refuses a worker that has another hash under a name than a member. */
typedef struct lw_alike {
  const char* name;
  uint64_t hash;
  const char* summary; /* for people, its size for example */
} lw_alike;

/* Strings are UTF-8 and are copied; NULL if absent. */
typedef struct lw_options {
  size_t size;                 /* sizeof(lw_options) */
  const char* coordinator;     /* "host:port" */
  const char* name;            /* this worker's; unique among live workers */
  const char* token;           /* from `longwave token create`, redeemed into state_dir/security */
  const char* state_dir;       /* identity, credentials and checkpoints; NULL: none */
  const char* metrics;         /* "host:port" of /metrics instead of metrics.listen; "": none */
  const char* const* settings; /* "key=value", for this worker only */
  size_t setting_count;
  const lw_callbacks* callbacks;
  const lw_node* node;   /* NULL: the worker is one process */
  const lw_alike* alike; /* at most 16; of a node rank 0's count */
  size_t alike_count;
} lw_options;

/* A trained tensor. All workers of the run list the tensors in the same order. */
typedef struct lw_tensor {
  const char* name;
  const int64_t* shape;
  size_t dimensions;
} lw_tensor;

/* Opens the folder, redeems the token, fetches the run's configuration from the coordinator (within
 * cluster.start_timeout_s) and lays out the tensors. The worker does not register yet. */
LW_API int lw_join(const lw_options* options, const lw_tensor* tensors, size_t tensor_count,
                   lw_member** member);

/* The run, by the coordinator's configuration. */
typedef struct lw_run {
  size_t size;          /* sizeof(lw_run), set by the caller */
  uint64_t parameters;  /* elements of the flat arrays */
  uint64_t steps;       /* inner steps of the run */
  uint64_t rounds;      /* with sync.inner_steps auto the most that there can be */
  uint64_t inner_steps; /* H, in a round; likewise */
  uint64_t tokens_max;  /* in a step: train.batch × model.context */
  int sends_gradient;   /* signal: each step's gradient; 0: the change of theta by inner steps */
  int takes_gradient;   /* the inner optimizer takes the merged gradient: see gradient_ready */
} lw_run;
LW_API int lw_describe(const lw_member* member, lw_run* run);
/* The whole configuration as YAML, valid until lw_close. NULL: failed, see lw_error. */
LW_API const char* lw_configuration(const lw_member* member);
/* Index of the tensor's first element in the flat arrays. Negative: lw_status. */
LW_API int64_t lw_offset(const lw_member* member, size_t tensor);

typedef struct lw_range {
  uint64_t begin; /* elements of the flat arrays: begin … end − 1 */
  uint64_t end;
} lw_range;
/* The ascending ranges of elements that a rank of the node syncs; rank 0 of one process: all.
 * Writes at most `capacity` of them, and returns their number. Negative: lw_status. */
LW_API int64_t lw_owned(const lw_member* member, uint32_t rank, lw_range* ranges, size_t capacity);

enum lw_device { LW_CPU = 0, LW_CUDA = 1 };
/* Whether the arrays may be on the device. LW_UNAVAILABLE: library or machine lacks the device. */
LW_API int lw_can_use(int device);

/* Flat arrays, which must stay valid until after lw_close. LW_CUDA: a process has one such GPU, and
 * the calling thread's current device is that one in each call from lw_begin to lw_close. */
typedef struct lw_arrays {
  size_t size;     /* sizeof(lw_arrays) */
  float* theta;    /* [parameters]: the first weights, from lw_begin on the run's */
  float* gradient; /* [parameters]; NULL unless lw_run has `sends_gradient` */
  int device;      /* lw_device of the arrays' memory */
  void* stream;    /* cudaStream_t on which the caller computes */
} lw_arrays;

/* Flags that lw_begin and lw_step return on success. */
enum lw_event {
  LW_MOVED = 1,   /* theta has changed since the step: a merged update, or the run's present */
  LW_SKIPPED = 2, /* the run has gone on without this worker: lw_stats has the skipped steps */
  LW_SYNCS = 4,   /* the next lw_step reads or changes theta; without it, it does not */
  LW_OVER = 8     /* no further step: the run is over, and theta is its last state; without
                   * LW_MOVED, of lw_begin: it was finished before, and theta is the caller's */
};

/* Registers and waits until the run begins. A worker that comes late, or back, catches up to the
 * run's present and skips the steps before. LW_UNAVAILABLE (LW_CUDA): this library has no CUDA. */
LW_API int lw_begin(lw_member* member, const lw_arrays* arrays);

/* The loss of a step whose loop does not know it: the run shows none. */
#define LW_NO_LOSS (-DBL_MAX)
/* Called after an inner step, which has updated theta (or gradient). loss: finite; the worker
 * reports the mean over a round. tokens: the step's weight in the merge; 0 and all above
 * tokens_max (which the run warns of) count as tokens_max. Of a node's rank: its own, and its share
 * of tokens_max. */
LW_API int lw_step(lw_member* member, double loss, uint64_t tokens);

/* Of a node's rank: the loop's own work until the next lw_step, an evaluation for example, may take
 * longer than steps do. After it the ranks wait for each other before they call lw_step, in which
 * the others are awaited for cluster.heartbeat_timeout_s. */
LW_API int lw_pause(lw_member* member);

/* Adds a blob to a checkpoint, inside `save`. The bytes must not change until the call that runs
 * `save` returns. At most 60 blobs, with different names of 1 … 60 bytes. */
LW_API int lw_save(lw_state* state, const char* name, const void* bytes, size_t size);
/* The blob that an earlier process of this worker saved last, between lw_begin and the first
 * lw_step. bytes: NULL if there is no blob of the name. */
LW_API int lw_load(const lw_member* member, const char* name, const void** bytes, size_t* size);

typedef struct lw_figures {
  size_t size;           /* sizeof(lw_figures), set by the caller */
  uint64_t step;         /* the run's next step */
  uint64_t round;        /* the next step's round */
  int64_t skipped_steps; /* by the last lw_begin or lw_step; negative if lw_begin goes back
                          * behind this worker's saved step and repeats steps */
  uint64_t tokens;
  uint64_t bytes_pushed;
  uint64_t bytes_pulled;
  uint32_t worker;  /* index of this worker */
  uint32_t members; /* of the run, this one included */
  double seconds_computing;
  double seconds_syncing; /* in which syncs kept the loop waiting */
  double learning_rate;   /* of the next step, by train.* of the configuration */
  int writes_weights;     /* this worker writes the run's last weights */
  /* With sync.inner_steps auto they change between rounds. */
  uint64_t inner_steps; /* H of the next step's round; 0: not known */
  uint64_t rounds;      /* of the run, if H stayed; 0: not known */
} lw_figures;
LW_API int lw_stats(const lw_member* member, lw_figures* figures);

/* Tells the coordinator a sentence for people about this worker, which `longwave status`, the
 * coordinator's log and the end of `longwave up` show once: 16 of a worker, each of at most 1024
 * bytes. The program shows it itself where its user looks. */
LW_API int lw_warn(lw_member* member, const char* text);

/* Makes the current or the next call end with LW_STOPPED. With a state_dir the worker's own state
 * is then in a checkpoint. Safe in a signal handler. */
LW_API void lw_stop(lw_member* member);

/* Ends the membership after LW_OVER. LW_ENDED: the run did not end well; the error has the
 * coordinator's reason. */
LW_API int lw_finish(lw_member* member);
/* Ends the membership before LW_OVER, so that the run does not wait for this worker. failure: the
 * reason, reported to the coordinator as a failure. NULL: the worker writes a checkpoint, leaves,
 * and may come back; LW_UNAVAILABLE: so does a node, but without the checkpoint, since a rank has
 * ended, failed or gone another way. */
LW_API int lw_leave(lw_member* member, const char* failure);

/* Frees the member. If the member has neither finished nor left, or stays open when the process
 * exits, the run sees a worker that has crashed. NULL has no effect. */
LW_API void lw_close(lw_member* member);

#ifdef __cplusplus
}
#endif

#endif /* LONGWAVE_H_ */
