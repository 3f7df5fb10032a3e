import { type Callable, heldOf } from '../captured-functions.ts';
import type { CaptureSlot } from '../slot.ts';
import { findPlace, putAhead } from '../wrap/imitate.ts';
import { wrapFunction } from '../wrap/wrap.ts';
import { type WrapResult, wrapFactory } from '../wrap/wrap-property.ts';
import { buildsOf } from './target-files.ts';
import { behindGetter, messageOf } from './wrapper-place.ts';

interface RuntimeTarget {
  readonly functionPath: string;
  readonly result: readonly string[] | undefined;
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
  /** `builds`: those of its package; omitted for an own file. */
  readonly patched: (builds?: readonly string[]) => void;
  readonly failed: (reason: string, builds?: readonly string[]) => void;
}

type Names = readonly string[] | null;

/** The object that inserted calls use. Its property names are part of their text: a contract. */
interface Runtime {
  fn(value: unknown, id: string, parameters: Names, name?: string, isReturned?: 1): unknown;
  put(owner: object, key: string, id: string, parameters: Names, isReturned?: 1): void;
  obj(value: unknown, id: string, parameters: Names, path: readonly string[], isReturned?: 1): unknown;
  loaded(key: string, exports: object): void;
  readonly targets: Map<string, RuntimeTarget>;
  readonly patches: Map<string, (exports: object) => void>;
}

const key = Symbol.for('svc.capture');

/** This thread's targets of inserted calls: one map, however many copies of this package are loaded. */
export function runtimeTargets(): Map<string, RuntimeTarget> {
  return runtime().targets;
}

/** Receivers of the exports of ES modules that have run. None throws. */
export function runtimePatches(): Map<string, (exports: object) => void> {
  return runtime().patches;
}

function runtime(): Runtime {
  const holder = globalThis as unknown as Record<symbol, Runtime | undefined>;
  if (!holder[key]) {
    const made: Runtime = { fn, put, obj, loaded, targets: new Map(), patches: new Map() };
    // Not enumerable: applications may copy or list globals.
    Object.defineProperty(globalThis, key, { value: made, configurable: true });
    // For a module that declares its own `Symbol` or `globalThis`: reachable through literals.
    Reflect.defineProperty(Object, key, { value: made, configurable: true });
  }
  return holder[key] as Runtime;
}

function loaded(name: string, exports: object): void {
  runtimePatches().get(name)?.(exports);
}

/** `isReturned`: the function is part of a factory's result, not the factory itself. */
function targetOf(id: string, isReturned: 1 | undefined): RuntimeTarget | undefined {
  const target = runtimeTargets().get(id) ?? inBuild(id);
  return target && isReturned ? { ...target, result: undefined } : target;
}

const views = new WeakMap<RuntimeTarget, Map<string, RuntimeTarget>>();

/** The target for one build of its package. Cached: a class field is captured for each instance. */
function inBuild(key: string): RuntimeTarget | undefined {
  const { id, builds } = buildsOf(key);
  const target = runtimeTargets().get(id);
  if (target === undefined) return undefined;
  const known = views.get(target) ?? new Map<string, RuntimeTarget>();
  views.set(target, known);
  const view = known.get(key) ?? {
    ...target,
    patched: () => target.patched(builds),
    failed: (reason) => target.failed(reason, builds),
  };
  known.set(key, view);
  return view;
}

/** Returns the wrapper of a function; on any failure the function itself. */
function fn(value: unknown, id: string, parameters: Names, name?: string, isReturned?: 1): unknown {
  const target = targetOf(id, isReturned);
  if (!target) return value;
  try {
    if (typeof value !== 'function') {
      target.failed(`${target.functionPath} is not a function but ${kindOf(value)}`);
      return value;
    }
    if (name !== undefined && value.name !== name) nameIt(value, name);
    return wrap(value as Callable, target, parameters);
  } catch (error) {
    target.failed(messageOf(error));
    return value;
  }
}

function put(owner: object, member: string, id: string, parameters: Names, isReturned?: 1): void {
  obj(owner, id, parameters, [member], isReturned);
}

/** Captures the function at a path inside an object. */
function obj(
  value: unknown,
  id: string,
  parameters: Names,
  path: readonly string[],
  isReturned?: 1,
): unknown {
  const target = targetOf(id, isReturned);
  if (!target) return value;
  try {
    const owner = ownerOf(value, path);
    const problem =
      typeof owner === 'string' ? owner : putMember(owner.object, path.at(-1) ?? '', target, parameters);
    if (problem !== undefined) target.failed(`${target.functionPath} ${problem}`);
  } catch (error) {
    target.failed(messageOf(error));
  }
  return value;
}

/** The object before the last step of a path, or a problem. Runs no getter, which might open a connection. */
function ownerOf(value: unknown, path: readonly string[]): { readonly object: unknown } | string {
  let object = value;
  for (const [index, step] of path.slice(0, -1).entries()) {
    const place = findPlace(object, step);
    if (place === undefined) return `does not exist at runtime: no object has ${step}`;
    const { descriptor } = place;
    if (!('value' in descriptor))
      return `cannot be reached: ${behindGetter(step, path.slice(index + 1).join('.'))}`;
    object = descriptor.value;
  }
  return { object };
}

function putMember(
  owner: unknown,
  member: string,
  target: RuntimeTarget,
  parameters: Names,
): string | undefined {
  const place = findPlace(owner, member);
  if (!place) return `does not exist at runtime: no object has ${member}`;
  const { descriptor } = place;
  if (!('value' in descriptor)) return 'is a getter, not a function';
  if (typeof descriptor.value !== 'function') return `is not a function but ${kindOf(descriptor.value)}`;
  const wrapped = wrap(descriptor.value as Callable, target, parameters);
  const isDone = wrapped === descriptor.value || putAhead(place, { value: wrapped });
  return isDone ? undefined : 'cannot be replaced: its object is frozen';
}

function wrap(value: Callable, target: RuntimeTarget, parameters: Names): Callable {
  const { functionPath, result } = target;
  const slot = target.slotFor(parameters ?? undefined);
  if (result) {
    const wrapped = wrapFactory(value, { [result.join('.')]: slot }, (_, outcome) => {
      const problem = methodProblem(functionPath, result.join('.') || 'the result', outcome);
      if (problem === undefined) target.patched();
      else target.failed(problem);
    });
    target.patched();
    return wrapped;
  }
  const wrapped = wrapFunction(value, slot);
  const holder = heldOf(wrapped)?.slot;
  if (holder === slot) target.patched();
  else if (holder) target.failed(`${functionPath} is captured by the target ${holder.plan.id} already`);
  else target.failed(`${functionPath} is a class with private static members, which cannot be wrapped`);
  return wrapped;
}

function methodProblem(functionPath: string, method: string, outcome: WrapResult): string | undefined {
  const returned = `what ${functionPath.split('()')[0]}() returned`;
  switch (outcome) {
    case 'wrapped':
    case 'already':
      return undefined;
    case 'missing':
      return `${returned} has no ${method}`;
    case 'not a function':
      return `${method} of ${returned} is not a function`;
    case 'behind a getter':
      return `${method} of ${returned} is behind a getter, which svc does not call: name the function where it is defined`;
    case 'taken':
      return `${method} of ${returned} is captured by another target already`;
    default:
      return `${method} of ${returned} cannot be replaced: its object is frozen`;
  }
}

/** Gives a function the name that JavaScript would have inferred without a call around it. */
function nameIt(value: object, name: string): void {
  const own = Object.getOwnPropertyDescriptor(value, 'name');
  if (own && !(own.configurable && typeof own.value === 'string')) return;
  Object.defineProperty(value, 'name', { configurable: true, ...own, value: name });
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
