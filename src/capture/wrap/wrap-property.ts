import { shared } from '../../ground/lifecycle.ts';
import {
  adopt,
  type Callable,
  chainOf,
  heldOf,
  isAsyncFunction,
  remember,
  type WrapTarget,
} from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';
import { constructionTarget, findPlace, imitate, isConstructor, putInPlace, setOwn } from './imitate.ts';
import { kindOf, passThrough, wrapFunction, wrapHeld } from './wrap.ts';

/** `taken`: the function already serves another target, or a declaration with priority; `captureNotes` names both. */
export type WrapResult =
  | 'wrapped'
  | 'already'
  | 'taken'
  | 'missing'
  /** The path leads through a getter, which only the application may run. */
  | 'behind a getter'
  | 'not a function'
  | 'not configurable'
  | 'not wrappable';

/** Captures the function in a property, or the one that a getter returns. The property keeps its flags. Never throws. */
function wrapProperty(owner: unknown, key: string, slot: CaptureSlot): WrapResult {
  try {
    const place = findPlace(owner, key);
    if (place === undefined) return 'missing';
    return 'value' in place.descriptor ? wrapValue(place, slot) : wrapGetter(place, slot);
  } catch {
    return 'not configurable';
  }
}

type Place = NonNullable<ReturnType<typeof findPlace>>;

function wrapValue(place: Place, slot: CaptureSlot): WrapResult {
  const { owner, descriptor, isOwn } = place;
  if (typeof descriptor.value !== 'function') return 'not a function';
  const known = heldOf(descriptor.value);
  if (known !== undefined) return adopted(known, slot);
  const isLocked = isOwn ? !descriptor.configurable && !descriptor.writable : !Object.isExtensible(owner);
  if (isLocked) return 'not configurable';
  const value = wrapHeld(descriptor.value as Callable, { slot });
  if (value === descriptor.value) return 'not wrappable';
  return putInPlace(place, { value }) ? 'wrapped' : 'not configurable';
}

function adopted(known: WrapTarget, slot: CaptureSlot): WrapResult {
  switch (adopt(known, slot)) {
    case 'already':
      return 'already';
    case 'replaced':
      return 'wrapped';
    default:
      return 'taken';
  }
}

function wrapGetter(place: Place, slot: CaptureSlot): WrapResult {
  const { owner, descriptor, isOwn } = place;
  const getter = descriptor.get;
  if (getter === undefined) return 'not a function';
  const known = heldOf(getter);
  if (known !== undefined) return adopted(known, slot);
  if (isOwn ? !descriptor.configurable : !Object.isExtensible(owner)) return 'not configurable';
  const held: WrapTarget = { slot };
  const get = wrappingGetter(getter, held);
  return putInPlace(place, { get }) ? 'wrapped' : 'not configurable';
}

/** Returns what `getter` returns; each function is wrapped once. */
function wrappingGetter(getter: () => unknown, held: WrapTarget): () => unknown {
  const wrappers = new WeakMap<object, Callable>();
  const get = function (this: unknown): unknown {
    const value = Reflect.apply(getter, this, []);
    if (typeof value !== 'function') return value;
    let wrapper = wrappers.get(value);
    if (wrapper === undefined) {
      wrapper = wrapHeld(value as Callable, held);
      wrappers.set(value, wrapper);
    }
    return wrapper;
  };
  remember(get, getter as Callable, held);
  return get;
}

type MethodReport = (method: string, result: WrapResult) => void;

interface Methods {
  readonly slots: Map<string, CaptureSlot>;
  readonly reports: Map<string, MethodReport | undefined>;
  readonly told: Set<string>;
  /** Returned function -> its wrapper: a factory that returns the same function twice keeps doing so. */
  readonly returned: WeakMap<object, Callable>;
  /** Thenables returned before: they must not get nested `then` wrappers. */
  readonly thenables: WeakSet<object>;
}

const factories = shared<WeakMap<object, Methods>>('captured-factories', () => new WeakMap());

/**
 * Captures methods of every object that `factory` returns, resolves to or constructs. A method is a name, a path
 * (`orders.create`), or empty for the returned function itself. Objects that cannot be changed (frozen ones) are
 * reported and left as they are.
 */
export function wrapFactory<F extends Callable>(
  factory: F,
  methods: Readonly<Record<string, CaptureSlot>>,
  report?: MethodReport,
): F {
  if (typeof factory !== 'function') return factory;
  const known = chainOf(factory).find((link) => factories.has(link));
  if (known !== undefined) {
    addMethods(factories.get(known) as Methods, methods, report);
    return factory;
  }
  const wanted: Methods = {
    slots: new Map(),
    reports: new Map(),
    told: new Set(),
    returned: new WeakMap(),
    thenables: new WeakSet(),
  };
  addMethods(wanted, methods, report);
  const wrapper = isConstructor(factory) ? constructible(factory, wanted) : callable(factory, wanted);
  imitate(wrapper, factory);
  remember(wrapper, factory);
  factories.set(wrapper, wanted);
  return wrapper as unknown as F;
}

function addMethods(
  wanted: Methods,
  methods: Readonly<Record<string, CaptureSlot>>,
  report: MethodReport | undefined,
): void {
  for (const [method, slot] of Object.entries(methods)) {
    wanted.slots.set(method, slot);
    wanted.reports.set(method, report);
  }
}

function callable(factory: Callable, wanted: Methods): Callable {
  const isAsync = isAsyncFunction(factory);
  const { wrapper } = {
    wrapper(this: unknown, ...args: unknown[]): unknown {
      return patchResult(Reflect.apply(factory as never, this, args), wanted, isAsync);
    },
  };
  return wrapper;
}

function constructible(factory: Callable, wanted: Methods): Callable {
  const wrapper = function (this: unknown, ...args: unknown[]): unknown {
    if (new.target === undefined)
      return patchResult(Reflect.apply(factory as never, this, args), wanted, false);
    const target = constructionTarget(new.target as Callable, wrapper, factory);
    return patchObject(Reflect.construct(factory as never, args, target), wanted);
  };
  return wrapper;
}

function patchResult(result: unknown, wanted: Methods, isAsync: boolean): unknown {
  const kind = kindOf(result);
  if (kind === 'promise') {
    const promise = result as Promise<unknown>;
    const onValue = (value: unknown) => patchObject(value, wanted);
    if (isAsync) return promise.then(onValue);
    // Objects are patched in place; only a function is replaced by its wrapper.
    const slot = wanted.slots.get('');
    return passThrough(promise, onValue, undefined, slot !== undefined, slot?.plan.id ?? '');
  }
  if (kind === 'thenable') return patchThenable(result as PromiseLike<unknown>, wanted);
  return patchObject(result, wanted);
}

/** The value is patched before the caller sees it. The thenable runs when its caller starts it. */
function patchThenable(thenable: PromiseLike<unknown>, wanted: Methods): PromiseLike<unknown> {
  if (wanted.thenables.has(thenable)) return thenable;
  wanted.thenables.add(thenable);
  const original = thenable.then as (...handlers: unknown[]) => unknown;
  setOwn(thenable, 'then', function then(this: unknown, onValue: unknown, ...rest: unknown[]): unknown {
    const patched = (value: unknown): unknown => {
      const result = patchObject(value, wanted);
      return typeof onValue === 'function' ? onValue(result) : result;
    };
    return Reflect.apply(original, this, [patched, ...rest]);
  });
  for (const [method, slot] of wanted.slots) if (method !== '') wrapMethod(thenable, method, slot);
  return thenable;
}

function patchObject(value: unknown, wanted: Methods): unknown {
  const isFunction = typeof value === 'function';
  if (!isFunction && (typeof value !== 'object' || value === null)) return value;
  let patched = value as object;
  for (const [method, slot] of wanted.slots) {
    if (method !== '') {
      tell(wanted, method, wrapMethod(value as object, method, slot));
    } else if (isFunction) {
      patched = wrapReturned(value as Callable, slot, wanted);
      tell(wanted, method, heldOf(patched)?.slot === slot ? 'wrapped' : 'taken');
    } else {
      tell(wanted, method, 'not a function');
    }
  }
  return patched;
}

function wrapReturned(value: Callable, slot: CaptureSlot, wanted: Methods): Callable {
  let wrapper = wanted.returned.get(value);
  if (wrapper === undefined) {
    wrapper = wrapFunction(value, slot);
    wanted.returned.set(value, wrapper);
  }
  return wrapper;
}

function tell(wanted: Methods, method: string, result: WrapResult): void {
  const outcome = `${method} ${result}`;
  if (result === 'already' || wanted.told.has(outcome)) return;
  wanted.told.add(outcome);
  wanted.reports.get(method)?.(method, result);
}

function wrapMethod(value: object, path: string, slot: CaptureSlot): WrapResult {
  const names = path.split('.');
  const method = names.pop() as string;
  let owner: unknown = value;
  try {
    for (const name of names) {
      const descriptor = findPlace(owner, name)?.descriptor;
      if (descriptor !== undefined && !('value' in descriptor)) return 'behind a getter';
      owner = descriptor?.value;
    }
  } catch {
    return 'missing';
  }
  return wrapProperty(owner, method, slot);
}
