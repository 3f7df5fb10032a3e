import { isMap, isSet, isTypedArray } from 'node:util/types';
import { methodCaller } from './call-method.ts';
import { type Fail, maxEvaluationMs, maxProjectedElements } from './failure.ts';
import { binary, type Evaluate, negate, type Walk } from './operators.ts';
import { isUsable, readIndex, readProperty, refusedValue } from './read.ts';
import type { ExpressionScope, Resolved, ScopeKey } from './scope.ts';
import type { Node } from './syntax-tree.ts';

/** What building needs to know of the expression around a node. */
interface Surroundings {
  readonly failAt: (offset: number) => Fail;
  readonly resolve: (name: string, offset: number) => Resolved;
}

type Step = (value: unknown, ...rest: Parameters<Evaluate>) => unknown;

/** Turns a tree into closures, once: no text is evaluated, neither here nor later. */
export function build(node: Node, around: Surroundings): Evaluate {
  const fail = around.failAt(node.at);
  switch (node.kind) {
    case 'literal': {
      const { value } = node;
      return () => value;
    }
    case 'variable':
      return variable(around.resolve(node.name, node.at), fail);
    case 'element':
      return (_call, walk) => walk.element;
    case 'property': {
      const target = build(node.target, around);
      const { name } = node;
      const read: Step = (value, call) => {
        checkOpen(fail, call, value, name);
        return readProperty(fail, value, name);
      };
      return node.safe ? orNull(target, read) : (call, walk) => read(target(call, walk), call, walk);
    }
    case 'index': {
      const target = build(node.target, around);
      const key = build(node.key, around);
      const read: Step = (value, call, walk) => {
        const at = key(call, walk);
        checkOpen(fail, call, value, at);
        return readIndex(fail, value, at);
      };
      return node.safe ? orNull(target, read) : (call, walk) => read(target(call, walk), call, walk);
    }
    case 'call': {
      const target = build(node.target, around);
      const args = list(node.args, around);
      const invoke = methodCaller(fail, node.name);
      if (node.safe) return orNull(target, (value, call, walk) => invoke(value, args(call, walk)));
      return (call, walk) => invoke(target(call, walk), args(call, walk));
    }
    case 'project':
    case 'select': {
      const target = build(node.target, around);
      const over = (node.kind === 'project' ? project : select)(fail, build(node.body, around));
      if (node.safe) return orNull(target, over);
      return (call, walk) => over(target(call, walk), call, walk);
    }
    case 'list':
      return list(node.items, around);
    case 'map':
      return map(node.keys, node.values, around);
    case 'unary': {
      const operand = build(node.operand, around);
      return node.operator === '!' ? (call, walk) => !operand(call, walk) : negate(fail, operand);
    }
    case 'binary':
      return binary(fail, node.operator, build(node.left, around), build(node.right, around));
    case 'conditional': {
      const test = build(node.test, around);
      const yes = build(node.yes, around);
      const no = build(node.no, around);
      return (call, walk) => (test(call, walk) ? yes(call, walk) : no(call, walk));
    }
  }
}

/** `?.`: as in SpEL, only this step gives null; the steps after it go on with that null. */
function orNull(target: Evaluate, step: Step): Evaluate {
  return (call, walk) => {
    const value = target(call, walk);
    return value === null || value === undefined ? null : step(value, call, walk);
  };
}

function checkOpen(fail: Fail, { refuses }: ExpressionScope, target: unknown, field: unknown): void {
  if (refuses === undefined) return;
  const code = refuses(target, String(field));
  if (code === undefined) return;
  throw fail('its class marks this field as personal data, and this text goes out in clear.', code);
}

function variable(resolved: Resolved, fail: Fail): Evaluate {
  if (resolved.kind === 'scope') return scopeValue(resolved.key, fail);
  const { kind, index } = resolved;
  return (call) => {
    if (kind === 'argument' && index >= call.args.length)
      throw fail('the call has no argument at this position.');
    return usable(fail, call.args[index]);
  };
}

/** One closure for each: reading under a name that never changes is the fastest. */
function scopeValue(key: ScopeKey, fail: Fail): Evaluate {
  switch (key) {
    case 'result':
      return (call) => usable(fail, call.result);
    case 'self':
      return (call) => usable(fail, call.self);
    case 'error':
      return (call) => usable(fail, call.error);
    case 'args':
      return (call) => call.args;
  }
}

function usable(fail: Fail, value: unknown): unknown {
  if (isUsable(value)) return value;
  throw refusedValue(fail, value);
}

function list(nodes: readonly Node[], around: Surroundings): (...of: Parameters<Evaluate>) => unknown[] {
  const items = nodes.map((node) => build(node, around));
  return (call, walk) => {
    const values: unknown[] = [];
    for (const item of items) values.push(item(call, walk));
    return values;
  };
}

function map(keys: readonly string[], nodes: readonly Node[], around: Surroundings): Evaluate {
  const values = nodes.map((node) => build(node, around));
  // Copying an object that has all keys already is faster than adding them one by one, and no setter that somebody put on
  // Object.prototype is ever run.
  const empty: Record<string, unknown> = Object.fromEntries(keys.map((key) => [key, undefined]));
  return (call, walk) => {
    const made = { ...empty };
    for (let index = 0; index < keys.length; index += 1) {
      made[keys[index] as string] = (values[index] as Evaluate)(call, walk);
    }
    return made;
  };
}

/** Looking at the clock takes as long as reading a few properties. */
const elementsBetweenLooks = 8;

type Over = (collection: unknown, ...of: Parameters<Evaluate>) => unknown;

/** `list.![body]`: the body of each element, in a list. */
function project(fail: Fail, body: Evaluate): Over {
  return (collection, call, walk) => {
    const values: unknown[] = [];
    visit(fail, collection, walk, () => {
      values.push(body(call, walk));
    });
    return values;
  };
}

/** `list.?[body]`: the elements whose body holds, in a list; of a map, the entries, in a map. */
function select(fail: Fail, body: Evaluate): Over {
  return (collection, call, walk) => {
    if (isMap(collection)) {
      const entries = new Map<unknown, unknown>();
      visit(fail, collection, walk, (entry) => {
        const { key, value } = entry as { key: unknown; value: unknown };
        if (body(call, walk)) entries.set(key, value);
      });
      return entries;
    }
    const values: unknown[] = [];
    visit(fail, collection, walk, (element) => {
      if (body(call, walk)) values.push(element);
    });
    return values;
  };
}

function lookAtClock(fail: Fail, walk: Walk): void {
  const now = performance.now();
  walk.startedAt ??= now;
  if (now - walk.startedAt > maxEvaluationMs)
    throw fail(`going through the elements took longer than ${maxEvaluationMs} ms.`);
}

/** Shows each element to `each`, with `walk.element` set to it. The elements of a map are `{ key, value }`. */
function visit(fail: Fail, collection: unknown, walk: Walk, each: (element: unknown) => void): void {
  const outer = walk.element;
  const enter = (element: unknown): void => {
    if (walk.left === 0) throw fail(`more than ${maxProjectedElements} elements were visited.`);
    walk.left -= 1;
    if (walk.left % elementsBetweenLooks === 0) lookAtClock(fail, walk);
    if (!isUsable(element)) throw refusedValue(fail, element);
    walk.element = element;
    each(element);
  };
  if (Array.isArray(collection) || isTypedArray(collection)) {
    const { length } = collection;
    for (let index = 0; index < length; index += 1) enter(collection[index]);
  } else if (isSet(collection)) {
    Set.prototype.forEach.call(collection, enter);
  } else if (isMap(collection)) {
    Map.prototype.forEach.call(collection, (value, key) => {
      if (!isUsable(value)) throw refusedValue(fail, value);
      enter({ key, value });
    });
  } else {
    throw fail(
      `only lists, sets and maps can be gone through${collection == null ? `, and this is ${collection}` : ''}.`,
    );
  }
  walk.element = outer;
}
