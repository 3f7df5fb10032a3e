let known: ReadonlySet<object> | undefined;

function collect(): ReadonlySet<object> {
  const { EventEmitter } = process.getBuiltinModule('node:events');
  const stream = process.getBuiltinModule('node:stream');
  const constructors: readonly { readonly prototype: object }[] = [
    ...[
      Object,
      Function,
      Array,
      String,
      Number,
      Boolean,
      Symbol,
      BigInt,
      Date,
      RegExp,
      Error,
      AggregateError,
    ],
    ...[EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError],
    ...[Map, Set, WeakMap, WeakSet, WeakRef, FinalizationRegistry, Promise],
    ...[
      ArrayBuffer,
      SharedArrayBuffer,
      DataView,
      Buffer,
      Int8Array,
      Uint8Array,
      Uint8ClampedArray,
      Int16Array,
    ],
    ...[Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array],
    ...[EventEmitter, EventTarget, AbortController, AbortSignal],
    ...[stream, stream.Readable, stream.Writable, stream.Duplex, stream.Transform, stream.PassThrough],
  ];
  const owners = new Set<object>([Reflect, globalThis, process]);
  for (const { prototype } of constructors) owners.add(prototype);
  // Those without a global name: of typed arrays, iterators and generators.
  const nameless = [new Int8Array(), [].values(), (function* () {})(), (async function* () {})()];
  for (const value of nameless) {
    let owner: object | null = Object.getPrototypeOf(value);
    while (owner !== null) {
      owners.add(owner);
      owner = Object.getPrototypeOf(owner);
    }
  }
  return owners;
}

/**
 * Whether the property that `target` has under `name`, own or inherited, belongs to a prototype of the language or of Node
 * (arrays, promises, buffers, event emitters, streams, …) rather than to the application.
 */
export function isBuiltInMember(target: object, name: string): boolean {
  known ??= collect();
  let owner: object | null = target;
  while (owner !== null && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  return owner !== null && known.has(owner);
}
