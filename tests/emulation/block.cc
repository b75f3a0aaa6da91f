#include "tests/emulation/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cuda_runtime.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/orders.h"
#include "tests/emulation/shared_memory.h"

// The built-in variables of the device language; set before a thread goes on.
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace longwave::emulation {
namespace {

constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kThreadsMax = 1024;

enum class State { kRunnable, kAtBarrier, kInExchange, kEnded };

struct Thread {
  std::unique_ptr<Fiber> fiber;
  uint3 index = {};
  State state = State::kEnded;
  Where where;                      // of the barrier or the exchange
  const char* operation = nullptr;  // of the exchange
  uint32_t mask = 0;
};

// An exchange between the lanes of a mask. The object lives until each lane has read the values,
// since the first lane may be at the next exchange before the last one reads.
struct Meeting {
  const char* operation = nullptr;
  uint32_t mask = 0, arrived = 0, readers = 0;  // free: no mask
  WarpValues values;
};

bool Same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

std::string Hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

uint32_t Count(const dim3& shape) { return shape.x * shape.y * shape.z; }

uint3 Unflatten(uint32_t i, const dim3& shape) {
  return {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
}

class Block;
// The one that runs a grid, if one does.
Block* running = nullptr;

class Block {
 public:
  void Run(const Grid& grid);
  void Barrier(Where where) {
    ++at_barrier_;
    Leave(State::kAtBarrier, where);
  }
  const WarpValues& Exchange(const char* operation, uint32_t mask, uint64_t value, Where where);

  uint32_t current() const { return current_; }
  uint32_t index() const { return block_; }
  SharedMemory& shared() { return shared_; }
  const Fiber& fiber() const { return *threads_[current_].fiber; }

 private:
  void RunOne();
  void RunThread();
  void Arrange(std::vector<uint32_t>& order);
  Fiber& Next();
  void EndBarrier();
  Meeting& MeetingOf(const char* operation, uint32_t mask, Where where);
  [[noreturn]] void RefuseDeadlock() const;
  // Ends the running thread's turn.
  void Leave(State state, Where where) {
    Thread& me = threads_[current_];
    me.state = state;
    me.where = where;
    Fiber& next = Next();
    if (&next != me.fiber.get()) me.fiber->SwitchTo(next);
  }

  const Grid* grid_ = nullptr;
  Fiber host_;  // the stack that runs the grid
  uint32_t block_ = 0, current_ = 0, thread_count_ = 0;
  std::vector<Thread> threads_;
  std::mt19937_64 random_;
  SharedMemory shared_;

  // The round: every thread that can go on gets a turn, in this order.
  std::vector<uint32_t> order_;
  uint32_t next_ = 0;   // place in order_
  bool moved_ = false;  // whether any thread had a turn

  uint32_t at_barrier_ = 0, ended_ = 0;
  std::vector<std::vector<Meeting>> warps_;
};

void Block::Arrange(std::vector<uint32_t>& order) {
  switch (thread_order().kind) {
    case ThreadOrder::Kind::kAscending:
      break;
    case ThreadOrder::Kind::kDescending:
      std::reverse(order.begin(), order.end());
      break;
    case ThreadOrder::Kind::kShuffled:
      std::shuffle(order.begin(), order.end(), random_);
      break;
  }
}

void Block::Run(const Grid& grid) {
  if (running != nullptr) Refuse("a kernel was launched by a kernel");
  grid_ = &grid;
  thread_count_ = Count(grid.threads);
  if (thread_count_ > kThreadsMax) Refuse("a block of more than 1024 threads");
  random_.seed(thread_order().seed);
  while (threads_.size() < thread_count_) {
    threads_.emplace_back().fiber = std::make_unique<Fiber>([] {
      for (;;) running->RunThread();
    });
  }
  for (uint32_t t = 0; t < thread_count_; ++t) threads_[t].index = Unflatten(t, grid.threads);
  warps_.resize((thread_count_ + kWarpLanes - 1) / kWarpLanes);
  order_.resize(thread_count_);
  std::iota(order_.begin(), order_.end(), 0);
  Arrange(order_);
  std::vector<uint32_t> blocks(Count(grid.blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  Arrange(blocks);
  gridDim = grid.blocks;
  blockDim = grid.threads;
  running = this;
  for (const uint32_t block : blocks) {
    block_ = block;
    blockIdx = Unflatten(block, grid.blocks);
    RunOne();
  }
  running = nullptr;
}

void Block::RunOne() {
  shared_.BeginBlock();
  at_barrier_ = ended_ = 0;
  for (std::vector<Meeting>& warp : warps_) warp.clear();
  for (uint32_t t = 0; t < thread_count_; ++t) threads_[t].state = State::kRunnable;
  next_ = 0;
  moved_ = false;
  host_.SwitchTo(Next());
  shared_.EndBlock();
}

// A thread's life in one block, on its fiber.
void Block::RunThread() {
  (*grid_->thread)();
  ++ended_;
  Leave(State::kEnded, {});
}

// The next to run: a thread, or the host when the block is finished.
Fiber& Block::Next() {
  for (;;) {
    while (next_ < thread_count_) {
      const uint32_t t = order_[next_++];
      Thread& thread = threads_[t];
      if (thread.state != State::kRunnable) continue;
      moved_ = true;
      current_ = t;
      threadIdx = thread.index;
      return *thread.fiber;
    }
    if (ended_ == thread_count_) return host_;
    if (at_barrier_ == thread_count_) {
      EndBarrier();
    } else if (!moved_) {
      RefuseDeadlock();
    }
    next_ = 0;
    moved_ = false;
  }
}

void Block::EndBarrier() {
  const Where& where = threads_[0].where;
  for (uint32_t t = 1; t < thread_count_; ++t) {
    const Where& other = threads_[t].where;
    if (other.line == where.line && Same(other.file, where.file)) continue;
    Refuse("thread 0 is at the barrier of " + Text(where) + ", thread " + std::to_string(t) +
           " at that of " + Text(other));
  }
  at_barrier_ = 0;
  for (uint32_t t = 0; t < thread_count_; ++t) threads_[t].state = State::kRunnable;
  if (thread_order().kind == ThreadOrder::Kind::kShuffled) Arrange(order_);
}

Meeting& Block::MeetingOf(const char* operation, uint32_t mask, Where where) {
  const uint32_t lane = current_ % kWarpLanes;
  const auto refuse = [&](const std::string& why) {
    Refuse(std::string(operation) + " of " + Text(where) + " with the mask " + Hex(mask) + ": " +
           why);
  };
  if ((mask >> lane & 1) == 0)
    refuse("the mask leaves out lane " + std::to_string(lane) + ", which calls");
  const uint32_t lanes = std::min(kWarpLanes, thread_count_ - current_ / kWarpLanes * kWarpLanes);
  if (lanes < kWarpLanes && mask >> lanes != 0) {
    refuse("the warp has " + std::to_string(lanes) + " lanes only");
  }
  std::vector<Meeting>& warp = warps_[current_ / kWarpLanes];
  Meeting* unused = nullptr;
  for (Meeting& meeting : warp) {
    if (meeting.mask == 0) {
      unused = &meeting;
    } else if (meeting.arrived != meeting.mask && (meeting.mask & mask) != 0) {
      if (meeting.mask != mask || !Same(meeting.operation, operation)) {
        const uint32_t other = static_cast<uint32_t>(std::countr_zero(meeting.arrived));
        const Thread& thread = threads_[current_ / kWarpLanes * kWarpLanes + other];
        refuse("lane " + std::to_string(other) + " is at " + meeting.operation + " of " +
               Text(thread.where) + " with lanes in common");
      }
      return meeting;
    }
  }
  // No reference into the warp's meetings is held across a wait: it may grow here.
  if (unused == nullptr) unused = &warp.emplace_back();
  *unused = {};
  unused->operation = operation;
  unused->mask = mask;
  std::fill(std::begin(unused->values.of), std::end(unused->values.of), ~uint64_t{0});
  return *unused;
}

const WarpValues& Block::Exchange(const char* operation, uint32_t mask, uint64_t value,
                                  Where where) {
  const uint32_t warp = current_ / kWarpLanes, lane = current_ % kWarpLanes;
  Meeting& meeting = MeetingOf(operation, mask, where);
  const size_t at = static_cast<size_t>(&meeting - warps_[warp].data());
  meeting.values.of[lane] = value;
  meeting.arrived |= uint32_t{1} << lane;
  if (meeting.arrived == mask) {
    meeting.readers = static_cast<uint32_t>(std::popcount(mask));
    for (uint32_t other = 0; other < kWarpLanes; ++other) {
      if ((mask >> other & 1) != 0) threads_[warp * kWarpLanes + other].state = State::kRunnable;
    }
  } else {
    threads_[current_].operation = operation;
    threads_[current_].mask = mask;
    Leave(State::kInExchange, where);
  }
  Meeting& done = warps_[warp][at];
  if (--done.readers == 0) done.mask = 0;
  return done.values;
}

void Block::RefuseDeadlock() const {
  std::string sentence = "threads wait for others that will not come:";
  size_t told = 0;
  // A thread of each kind suffices.
  std::vector<std::string> kinds;
  for (uint32_t t = 0; t < thread_count_; ++t) {
    const Thread& thread = threads_[t];
    std::string kind;
    if (thread.state == State::kAtBarrier) {
      kind = "is at the barrier of " + Text(thread.where);
    } else if (thread.state == State::kInExchange) {
      kind = std::string("is at ") + thread.operation + " of " + Text(thread.where) +
             " with the mask " + Hex(thread.mask);
    } else {
      kind = "has ended";
    }
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    kinds.push_back(kind);
    sentence += (told++ == 0 ? " thread " : ", thread ") + std::to_string(t) + " " + kind;
  }
  Refuse(sentence);
}

}  // namespace

void Run(const Grid& grid) {
  static Block* const block = new Block;
  block->Run(grid);
}

std::string Running() {
  if (running == nullptr) return "";
  return "block " + std::to_string(running->index()) + ", thread " +
         std::to_string(running->current()) + ": ";
}

std::string DescribeBlockMemory(const void* address) {
  if (running == nullptr) return "";
  if (running->fiber().IsGuard(address)) return "past the end of the thread's stack";
  return running->shared().Describe(address);
}

void Barrier(Where where) { running->Barrier(where); }

const WarpValues& Exchange(const char* operation, uint32_t mask, uint64_t value, Where where) {
  return running->Exchange(operation, mask, value, where);
}

uint32_t Lane() { return running->current() % kWarpLanes; }

void* SharedObject(const void* key, size_t bytes, size_t alignment) {
  return running->shared().Object(key, bytes, alignment);
}

std::string Text(const Where& where) {
  const std::string file = where.file == nullptr ? "" : where.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line);
}

void Refuse(const std::string& sentence) {
  std::fprintf(stderr, "CUDA emulation: %s%s\n", Running().c_str(), sentence.c_str());
  std::abort();
}

}  // namespace longwave::emulation
