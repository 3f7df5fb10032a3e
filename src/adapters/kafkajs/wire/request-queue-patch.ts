// wire/: what svc changes in kafkajs: its timers, codecs, and how its consumer hands over.

import { shared } from '../../../ground/lifecycle.ts';
import type { Logger } from '../../../observe/logger.ts';
import { knownVersion, sayUnknown, versionOfKafkajs } from '../known-kafkajs.ts';

/** What this patch touches of the request queue inside kafkajs, one per connection. */
interface RequestQueue {
  readonly inflight: Map<number, SocketRequest>;
  readonly pending: readonly SocketRequest[];
  readonly requestTimeout: number;
  readonly enforceRequestTimeout: boolean;
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  requestTimeoutIntervalId: NodeJS.Timeout | undefined;
  isConnected(): boolean;
  destroy(): void;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
  scheduleRequestTimeoutCheck(): void;
  sendSocketRequest(request: SocketRequest): void;
}

interface SocketRequest {
  readonly sentAt: number;
  readonly requestTimeout: number;
  timeoutRequest(): void;
}

const pendingCheckMs = 10;
const timeoutCheckMs = 100;
const methods = [
  'destroy',
  'checkPendingRequests',
  'scheduleCheckPendingRequests',
  'scheduleRequestTimeoutCheck',
  'sendSocketRequest',
] as const;

/**
 * kafkajs 2.2.4 re-arms a 1 ms timer on every connection for ever, with a delay that Node 24 warns about
 * (tulios/kafkajs#1751), and ticks every 100 ms to look for requests that timed out. Here both timers run only while
 * there is something to wait for, and neither keeps a process alive. Another version of kafkajs is left as it is.
 */
export async function patchRequestQueue(
  logger: Logger,
  parts: () => Promise<readonly [string | undefined, RequestQueue]> = installed,
): Promise<void> {
  const [version, prototype] = await parts().catch(() => []);
  const isKnown =
    version === knownVersion && methods.every((name) => typeof prototype?.[name] === 'function');
  if (!isKnown || prototype === undefined) {
    sayUnknown(logger, version, 'an idle process may use more CPU and not end by itself');
    return;
  }
  const patched = shared('kafkajs-request-queues', () => new WeakSet<object>());
  if (patched.has(prototype)) return;
  patched.add(prototype);
  patch(prototype);
}

async function installed(): Promise<readonly [string | undefined, RequestQueue]> {
  return Promise.all([versionOfKafkajs(), queuePrototype()]);
}

async function queuePrototype(): Promise<RequestQueue> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/network/requestQueue/index.js')).default.prototype;
}

function patch(prototype: RequestQueue): void {
  const { destroy, sendSocketRequest } = prototype;

  prototype.scheduleCheckPendingRequests = function () {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const throttledForMs = this.throttledUntil - Date.now();
    const check = () => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    };
    this.throttleCheckTimeoutId = setTimeout(check, throttledForMs > 0 ? throttledForMs : pendingCheckMs);
  };

  prototype.destroy = function () {
    destroy.call(this);
    this.requestTimeoutIntervalId = undefined;
  };

  // Called once by a new connection, which has nothing in flight yet.
  prototype.scheduleRequestTimeoutCheck = function () {
    this.destroy();
  };

  prototype.sendSocketRequest = function (request) {
    sendSocketRequest.call(this, request);
    if (!this.enforceRequestTimeout || this.requestTimeoutIntervalId !== undefined) return;
    const tick = () => failTimedOutRequests(this);
    this.requestTimeoutIntervalId = setInterval(tick, Math.min(this.requestTimeout, timeoutCheckMs)).unref();
  };
}

function failTimedOutRequests(queue: RequestQueue): void {
  for (const request of [...queue.inflight.values()]) {
    if (Date.now() - request.sentAt > request.requestTimeout) request.timeoutRequest();
  }
  if (!queue.isConnected()) {
    queue.destroy();
  } else if (queue.inflight.size === 0) {
    clearInterval(queue.requestTimeoutIntervalId);
    queue.requestTimeoutIntervalId = undefined;
  }
}
