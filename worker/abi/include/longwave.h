/* Longwave's worker for any training loop: the C interface of liblongwave.so.
 *
 *   lw_join     folder, credentials, the run's configuration: how the parameters lie
 *   lw_begin    registers, waits for the others, brings the parameters to the run's present
 *   lw_step     after each inner step; syncs when the run's method has it
 *   lw_finish   once lw_step has said LW_OVER (or lw_leave, before)
 *   lw_close
 *
 * tests/abi/linear_model.c is a whole worker.
 *
 * Parameters are one flat array of fp32, which the caller owns: tensor i begins at element
 * lw_offset(member, i), row by row. Between two lw_step calls the caller alone changes the array.
 *
 * A call that fails returns one of lw_status, which are negative, and lw_error says why in one
 * sentence. One thread at a time calls for one member; lw_stop, lw_abi and lw_error may be called
 * from any. In a process that was forked from one that had joined a run every call fails with
 * LW_FORKED and touches nothing.
 */
#ifndef LONGWAVE_H_
#define LONGWAVE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LW_API __attribute__((visibility("default")))

/* Grows with every change after which a program must be compiled anew. Structs whose first member
 * is their size may grow at their end without one. */
#define LW_ABI 1
LW_API uint32_t lw_abi(void);        /* the library's LW_ABI */
LW_API const char* lw_version(void); /* "0.1.0" */

enum lw_status {
  LW_OK = 0,
  LW_INVALID = -1,     /* an argument, a setting, or a call out of turn */
  LW_REFUSED = -2,     /* by the coordinator: another model, another version, no right to join */
  LW_UNAVAILABLE = -3, /* nobody answers; what is asked for is not there */
  LW_STOPPED = -4,     /* lw_stop or an interrupt asked for it; the run may go on */
  LW_ENDED = -5,       /* the run failed, or goes on without this worker */
  LW_DATA = -6,        /* a loss or a parameter that is not finite; a damaged file */
  LW_MEMORY = -7,
  LW_FORKED = -8,
  LW_INTERNAL = -9
};

/* Of the calling thread's last call that failed; "" before one has. Until that thread's next call.
 */
LW_API const char* lw_error(void);

/* Lines on standard error below this level are dropped. */
enum lw_log_level { LW_LOG_DEBUG = 0, LW_LOG_INFO = 1, LW_LOG_WARNING = 2, LW_LOG_ERROR = 3 };
LW_API int lw_set_log_level(int level);

typedef struct lw_member lw_member;
typedef struct lw_state lw_state;

/* Called on the thread that calls lw_begin, lw_step or lw_leave, meanwhile. Any may be NULL. */
typedef struct lw_callbacks {
  size_t size; /* sizeof(lw_callbacks) */
  void* context;
  /* A checkpoint is written: what the loop wants back after a crash goes in by lw_save. Nonzero: it
   * failed; none is written then, and a line in the log says so. */
  int (*save)(void* context, lw_state* state);
  /* Where lw_run says `takes_gradient`: the merged gradient stands in `gradient`, and the inner
   * optimizer takes its step with it, on `theta`. Nonzero: it failed, and so does the call. */
  int (*gradient_ready)(void* context);
  /* Some twenty times a second while a call waits. Nonzero: the call is to end (LW_STOPPED). */
  int (*interrupted)(void* context);
} lw_callbacks;

/* Strings are UTF-8, copied, and NULL where nothing is to be said. */
typedef struct lw_options {
  size_t size;                 /* sizeof(lw_options) */
  const char* coordinator;     /* "host:port" */
  const char* name;            /* of this worker, one live worker each */
  const char* token;           /* of `longwave token create`, redeemed into state_dir/security */
  const char* state_dir;       /* identity, credentials and checkpoints; NULL: nowhere */
  const char* metrics;         /* "host:port" of /metrics instead of metrics.listen; "": none */
  const char* const* settings; /* of this worker alone, "key=value" */
  size_t setting_count;
  const lw_callbacks* callbacks;
} lw_options;

/* A trained tensor, in the order in which every worker of the run has them. */
typedef struct lw_tensor {
  const char* name;
  const int64_t* shape;
  size_t dimensions;
} lw_tensor;

/* Opens the folder, redeems the token, asks the coordinator for the run's configuration (for as
 * long as cluster.start_timeout_s) and lays the tensors out. The run does not hear of this worker
 * yet. */
LW_API int lw_join(const lw_options* options, const lw_tensor* tensors, size_t tensor_count,
                   lw_member** member);

/* The run, as its coordinator told it. */
typedef struct lw_run {
  size_t size;         /* sizeof(lw_run), set by the caller */
  uint64_t parameters; /* elements of the flat arrays */
  uint64_t steps;      /* inner steps of the run */
  uint64_t rounds;
  uint64_t inner_steps; /* H: of a round */
  uint64_t tokens_max;  /* of a step: train.batch × model.context */
  int sends_gradient; /* the signal is each step's gradient; 0: what the inner steps did to theta */
  int takes_gradient; /* the inner optimizer steps with the merged one: see gradient_ready */
} lw_run;
LW_API int lw_describe(const lw_member* member, lw_run* run);
/* The whole configuration, as YAML. NULL: lw_error. Lives as long as the member. */
LW_API const char* lw_configuration(const lw_member* member);
/* The element of the flat arrays at which the tensor begins. Negative: lw_status. */
LW_API int64_t lw_offset(const lw_member* member, size_t tensor);

enum lw_device { LW_CPU = 0, LW_CUDA = 1 };
/* Whether arrays may lie there. LW_UNAVAILABLE: this library, or this machine, lacks it. */
LW_API int lw_can_use(int device);

/* Flat arrays, which outlive lw_close. */
typedef struct lw_arrays {
  size_t size;     /* sizeof(lw_arrays) */
  float* theta;    /* [parameters]: the first weights; the run's own from lw_begin on */
  float* gradient; /* [parameters]; NULL unless lw_run says `sends_gradient` */
  int device;      /* lw_device: whose memory they are */
  void* stream;    /* cudaStream_t on which the caller computes */
} lw_arrays;

/* What lw_begin and lw_step return, where they don't fail: any of these together. */
enum lw_event {
  LW_MOVED = 1,   /* theta is not what the step left: a merged update, or the run's present */
  LW_SKIPPED = 2, /* the run has gone on without this worker: lw_stats says by how many steps */
  LW_SYNCS = 4,   /* the next lw_step reads or changes theta; others leave it alone */
  LW_OVER = 8     /* no step is to follow: the run is over, and theta is its last state */
};

/* Registers and waits until the run begins. A worker that comes late, or back, is brought to the
 * run's present, and skips the steps before it. LW_UNAVAILABLE (LW_CUDA): this library has no
 * CUDA. */
LW_API int lw_begin(lw_member* member, const lw_arrays* arrays);

/* An inner step was taken, and left theta (or gradient) so. loss: a finite number; the mean of a
 * round's is the worker's. tokens: the step's weight in the merge, 1 … tokens_max; 0: tokens_max.
 */
LW_API int lw_step(lw_member* member, double loss, uint64_t tokens);

/* In `save`: adds a blob, whose bytes stay as they are until the call that saves returns. At most
 * 60 of different names of 1 … 60 bytes. */
LW_API int lw_save(lw_state* state, const char* name, const void* bytes, size_t size);
/* After lw_begin, until the first lw_step: what an earlier process of this worker saved last.
 * bytes: NULL if that has no blob of the name. */
LW_API int lw_load(const lw_member* member, const char* name, const void** bytes, size_t* size);

typedef struct lw_figures {
  size_t size;           /* sizeof(lw_figures), set by the caller */
  uint64_t step;         /* of the run: the next one */
  uint64_t round;        /* that the next step belongs to */
  int64_t skipped_steps; /* by the last lw_begin or lw_step; negative after an lw_begin that goes
                          * back to before what this worker saved, whose steps it takes again */
  uint64_t tokens;
  uint64_t bytes_pushed;
  uint64_t bytes_pulled;
  uint32_t worker;  /* its index */
  uint32_t members; /* of the run, this one included */
  double seconds_computing;
  double seconds_syncing; /* that syncs kept this loop waiting */
  double learning_rate;   /* of the next step, by train.* of the configuration */
  int writes_weights;     /* the run's last weights are this worker's to write */
} lw_figures;
LW_API int lw_stats(const lw_member* member, lw_figures* figures);

/* The call that is under way, or the next one, ends with LW_STOPPED. With a state_dir what only
 * this worker has is in a checkpoint then. Safe in a signal handler. */
LW_API void lw_stop(lw_member* member);

/* After LW_OVER. LW_ENDED: the coordinator's reason, if the run did not end well. */
LW_API int lw_finish(lw_member* member);
/* Before: nobody is to wait for this worker. failure: why, told to the coordinator as a failure;
 * NULL: it leaves in peace, with a checkpoint, and may come back. */
LW_API int lw_leave(lw_member* member, const char* failure);

/* Frees the member. One that neither finished nor left is as if its process had died; so is one
 * that is left open when the process exits. NULL: nothing. */
LW_API void lw_close(lw_member* member);

#ifdef __cplusplus
}
#endif

#endif /* LONGWAVE_H_ */
