/** Where every copy of the API, of any 1.x, keeps what was registered. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');

type Registered = Readonly<Record<string, unknown>>;

const globals = globalThis as unknown as Record<symbol, Registered | undefined>;

/** What an SDK registers; a logger for diagnostics alone is none. */
const sdkParts = ['trace', 'metrics', 'context', 'propagation', 'logs'];

/** Whether the application has started an SDK, or a part of one. */
export function isSdkRegistered(): boolean {
  const registered = globals[globalsKey];
  return registered !== undefined && sdkParts.some((part) => registered[part] !== undefined);
}

/**
 * Calls back, once, when something else is registered in the place of what is there. The API tells only its diagnostic
 * logger, which mostly nobody has set; but it writes this global before each attempt, from any of its copies. An attempt
 * after which it holds the same as before has failed.
 */
export function watchLaterSdks(onAttempt: () => void): void {
  let registered = globals[globalsKey];
  let before: Registered | undefined;
  const shown = { configurable: true, enumerable: true };
  let isOver = false;
  const look = (): void => {
    const hasFailed = before !== undefined && hasSame(before, registered);
    before = undefined;
    if (!hasFailed) return;
    isOver = true;
    Object.defineProperty(globals, globalsKey, { ...shown, writable: true, value: registered });
    onAttempt();
  };
  Object.defineProperty(globals, globalsKey, {
    ...shown,
    get: () => registered,
    set(next: Registered | undefined) {
      // What became of an earlier attempt of the same turn shows by now.
      look();
      if (isOver) {
        globals[globalsKey] = next;
        return;
      }
      registered = next;
      before = { ...next };
      queueMicrotask(look);
    },
  });
}

function hasSame(before: Registered, now: Registered | undefined): boolean {
  const names = Object.keys(now ?? {});
  return names.length === Object.keys(before).length && names.every((name) => before[name] === now?.[name]);
}
