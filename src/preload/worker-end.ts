import {
  BroadcastChannel,
  getEnvironmentData,
  setEnvironmentData,
  threadId,
  type Worker,
} from 'node:worker_threads';

/** Of the channel, and of the slots in the environment data, which each thread inherits from the one that makes it. */
const name = 'svc.end';
/** A worker thread that is busy for so long is not waited for. */
const answerMs = 500;
/** Each thread has the slot of its id. Ids only grow, so that two threads that live at once hardly ever share one. */
const slotCount = 1_024;
/** In a slot: svc runs in its thread, which has not had its last word. Else it holds 0. */
const running = 1;
/** A thread that has ended already has the id -1, which must not become a negative slot. */
const slotOf = (thread: number): number => (thread + slotCount) % slotCount;

/** Nothing tells worker threads that the main thread ends the process: it asks for their last word before it does. */
export interface WorkerEnds {
  /** The main thread, synchronously: returns when each worker thread in which svc runs has had its last word. */
  lastWords(): void;
}

/** The main thread: to be called before the application makes its first worker thread. */
export function watchWorkerEnds(): WorkerEnds {
  const slots = new Int32Array(new SharedArrayBuffer(slotCount * Int32Array.BYTES_PER_ELEMENT));
  setEnvironmentData(name, slots);
  forgetThoseThatEnd(slots);
  return {
    lastWords() {
      if (!slots.includes(running)) return;
      const channel = new BroadcastChannel(name);
      channel.postMessage('last words');
      const end = performance.now() + answerMs;
      for (const slot of slots.keys()) {
        Atomics.wait(slots, slot, running, Math.max(0, end - performance.now()));
      }
      channel.close();
    },
  };
}

/** Worker threads. `lastWord` is called when the main thread ends the process. */
export function answerMainThread(lastWord: () => void): void {
  const slots = getEnvironmentData(name);
  // Of another version of this package in the main thread, or none.
  if (!(slots instanceof Int32Array)) return;
  forgetThoseThatEnd(slots);
  const slot = slotOf(threadId);
  const channel = new BroadcastChannel(name);
  channel.onmessage = () => {
    try {
      lastWord();
    } finally {
      forget(slots, slot);
    }
  };
  // It does not keep the thread alive. The types of browsers do not know that.
  (channel as BroadcastChannel & { unref(): void }).unref();
  Atomics.store(slots, slot, running);
}

/** A thread that is terminated has no last word. */
function forgetThoseThatEnd(slots: Int32Array): void {
  process.on('worker', (worker: Worker) => {
    const slot = slotOf(worker.threadId);
    worker.once('exit', () => forget(slots, slot));
  });
}

function forget(slots: Int32Array, slot: number): void {
  Atomics.store(slots, slot, 0);
  Atomics.notify(slots, slot);
}
