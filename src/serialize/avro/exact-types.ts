import { createRequire } from 'node:module';
import type * as Avsc from 'avsc';
import { SvcError } from '../../ground/errors.ts';
import { uuidForm } from '../../ground/event-fields.ts';
import { runOwnWork } from '../../ground/lifecycle.ts';

type Type = Avsc.Type;
type Schema = { readonly [name: string]: unknown };
type Hook = ((value: unknown, type: object) => void) | undefined;
type ForSchema = (schema: unknown, options: object) => InnerType;

/** avsc's input and output. Writes past the end are dropped but counted, and avsc writes again with a larger buffer. */
interface Tap {
  readonly buf: Buffer;
  pos: number;
  readLong(): number;
  readString(): string;
  readBytes(): Buffer;
  readFixed(size: number): Buffer;
  writeLong(value: number): void;
  writeString(value: string): void;
  writeBytes(value: Buffer): void;
  writeFixed(value: Buffer, size: number): void;
  writeFloat(value: number): void;
  writeDouble(value: number): void;
}

/** The methods of a type that avsc calls. */
interface InnerType {
  readonly typeName: string;
  readonly branchName: string;
  readonly underlyingType?: InnerType;
  _check(value: unknown, flags?: unknown, hook?: Hook, path?: string[]): boolean;
  _read(tap: Tap): unknown;
  _write(tap: Tap, value: unknown): void;
  _copy(value: unknown, options?: object): unknown;
}
type Class = new (...args: never[]) => InnerType;

/** avsc's limit of exact numbers, one less than JavaScript's. */
const maxSafe = 2 ** 53 - 2;

function dataOf(value: unknown, type: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const tagged = value as { readonly type?: unknown; readonly data?: unknown };
  return tagged.type === type ? tagged.data : undefined;
}

/** From a Buffer or its JSON form. */
function bufferOf(value: unknown): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  const data = dataOf(value, 'Buffer');
  return Array.isArray(data) ? Buffer.from(data) : undefined;
}

/** An integer: an exact number, a BigInt, or its JSON form. */
function wholeOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number')
    return Number.isInteger(value) && Math.abs(value) <= maxSafe ? value : undefined;
  if (typeof value === 'bigint') return value;
  const data = dataOf(value, 'BigInt');
  return typeof data === 'string' && /^-?\d{1,5000}$/.test(data) ? BigInt(data) : undefined;
}

/** A number, or the JSON form of NaN and Infinity. */
function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  const data = dataOf(value, 'Number');
  return data === 'NaN' || data === 'Infinity' || data === '-Infinity' ? Number(data) : undefined;
}

/** How integers are read that a JavaScript number cannot hold. */
export type LargeNumbers = 'text' | 'bigint';

const longest = 2n ** 63n;
/** avsc writes negative numbers exactly only above twice this value. */
const mostNegative = -(2 ** 52);
const longBytes = 10;

const notExact = 'a number beyond 2^53 - 2 is not exact: use a BigInt';

function longOf(value: unknown): number | bigint | undefined {
  const whole = wholeOf(value);
  return typeof whole !== 'bigint' || (whole >= -longest && whole < longest) ? whole : undefined;
}

function writeLong(tap: Tap, value: number | bigint): void {
  if (typeof value === 'number' && value >= mostNegative) {
    tap.writeLong(value);
    return;
  }
  const whole = BigInt(value);
  let rest = whole < 0n ? -2n * whole - 1n : 2n * whole;
  for (; rest > 0x7fn; rest >>= 7n) tap.buf[tap.pos++] = Number(rest & 0x7fn) | 0x80;
  tap.buf[tap.pos++] = Number(rest);
}

/** A BigInt if a number would not be exact. */
function readLong(tap: Tap): number | bigint {
  const start = tap.pos;
  let end = start;
  while ((tap.buf[end] ?? 0) & 0x80) if (++end - start >= longBytes) throw new Error('too long');
  tap.pos = end + 1;
  if (end >= tap.buf.length) {
    tap.pos = tap.buf.length + 1;
    return 0;
  }
  let rest = 0;
  if (end - start < 7) {
    for (let at = end; at >= start; at--) rest = rest * 0x80 + ((tap.buf[at] as number) & 0x7f);
    return rest % 2 === 0 ? rest / 2 : -(rest + 1) / 2;
  }
  let large = 0n;
  for (let at = end; at >= start; at--) large = (large << 7n) | BigInt((tap.buf[at] as number) & 0x7f);
  const value = BigInt.asIntN(64, large & 1n ? -(large >> 1n) - 1n : large >> 1n);
  const asNumber = Number(value);
  return Number.isSafeInteger(asNumber) ? asNumber : value;
}

/** Shorter texts are written in a loop. */
const fewCharacters = 48;

/** Most texts are ASCII, with one byte per character. Throws for half of a surrogate pair. */
function writeText(tap: Tap, text: string): void {
  const { buf, pos } = tap;
  const { length } = text;
  if (length < fewCharacters) {
    let at = 0;
    for (let code = 0; at < length; at++) {
      code = text.charCodeAt(at);
      if (code > 0x7f) break;
      buf[pos + 1 + at] = code;
    }
    if (at === length) {
      buf[pos] = 2 * length;
      tap.pos = pos + 1 + length;
      return;
    }
  }
  const bytes = Buffer.byteLength(text);
  const isAscii = bytes === length;
  if (!isAscii && !text.isWellFormed()) throw misfit();
  tap.writeLong(bytes);
  if (tap.pos < buf.length) buf.write(text, tap.pos, isAscii ? 'latin1' : 'utf8');
  tap.pos += bytes;
}

/** U+FFFD may replace bytes that are not UTF-8, or be in the text. */
function readText(tap: Tap): string {
  const start = tap.pos;
  const text = tap.readString();
  if (typeof text !== 'string' || !text.includes('\ufffd')) return text;
  const bytes = Buffer.from(text);
  const read = Buffer.from(tap.buf.buffer, tap.buf.byteOffset, tap.buf.byteLength);
  if (!bytes.equals(read.subarray(tap.pos - bytes.length, tap.pos)) || tap.pos - bytes.length <= start)
    throw new Error('not UTF-8');
  return text;
}

function misfit(): Error {
  return new Error('does not fit');
}

interface Classes {
  readonly Long: Class;
  /** For logical types. */
  readonly RawLong: Class;
  readonly Float: Class;
  readonly Double: Class;
  readonly Text: Class;
  readonly Bytes: Class;
  readonly Fixed: new (schema: object, options: object) => InnerType;
  readonly Enum: new (schema: object, options: object) => InnerType;
  readonly Map: new (schema: object, options: object) => InnerType;
  readonly List: new (schema: object, options: object) => InnerType;
  readonly Union: new (types: readonly InnerType[], options: object) => InnerType;
  readonly Logical: new (schema: Schema, options: object, conversion: Conversion) => InnerType;
}

/** avsc's types, without their rounding, guessing and invalid UTF-8. */
function makeClasses(large: LargeNumbers): Classes {
  const { types } = loadAvsc();
  const base = types as unknown as Readonly<Record<string, new (...args: unknown[]) => InnerType>>;

  /** A type that accepts the values that `take` converts. */
  const taking = <Taken>(
    name: string,
    take: (value: unknown, type: never) => Taken | undefined,
    write: (tap: Tap, taken: Taken, type: never) => void,
    read: ((tap: Tap) => unknown) | undefined,
    why?: (value: unknown) => string | undefined,
  ): (new (
    ...args: unknown[]
  ) => InnerType) =>
    class extends (base[name] as new (...args: unknown[]) => InnerType) {
      override _check(value: unknown, _?: unknown, hook?: Hook): boolean {
        const fits = take(value, this as never) !== undefined;
        if (!fits && hook !== undefined) hook(value, this);
        return fits;
      }
      override _write(tap: Tap, value: unknown): void {
        const taken = take(value, this as never);
        if (taken === undefined) throw misfit();
        write(tap, taken, this as never);
      }
      override _read(tap: Tap): unknown {
        return read === undefined ? super._read(tap) : read(tap);
      }
      why(value: unknown): string | undefined {
        return why?.(value);
      }
    };

  const whyNoLong = (value: unknown): string | undefined =>
    typeof value === 'number' && Number.isInteger(value) ? notExact : undefined;
  const RawLong = taking('LongType', longOf, writeLong, readLong, whyNoLong);
  class Long extends RawLong {
    override _read(tap: Tap): unknown {
      const value = readLong(tap);
      return typeof value === 'bigint' && large === 'text' ? String(value) : value;
    }
  }
  const Float = taking(
    'FloatType',
    (value) => {
      const number = numberOf(value);
      return number === undefined || (Number.isFinite(number) && !Number.isFinite(Math.fround(number)))
        ? undefined
        : number;
    },
    (tap, value) => tap.writeFloat(value),
    undefined,
    (value) => (typeof value === 'number' ? 'it is too large for one' : undefined),
  );
  const AnyDouble = taking('DoubleType', numberOf, (tap, value) => tap.writeDouble(value), undefined);
  class Double extends AnyDouble {
    override _write(tap: Tap, value: unknown): void {
      if (typeof value === 'number') tap.writeDouble(value);
      else super._write(tap, value);
    }
  }
  const AnyText = taking(
    'StringType',
    (value) => (typeof value === 'string' && value.isWellFormed() ? value : undefined),
    writeText,
    readText,
    (value) =>
      typeof value === 'string' ? 'it holds half of a surrogate pair, which UTF-8 cannot encode' : undefined,
  );
  class Text extends AnyText {
    override _write(tap: Tap, value: unknown): void {
      if (typeof value !== 'string') throw misfit();
      writeText(tap, value);
    }
  }
  /** avsc mistakes names that all objects have for its symbols, and a list of one symbol for that symbol. */
  class Enum extends (base.EnumType as new (...args: unknown[]) => InnerType) {
    override _check(value: unknown, _?: unknown, hook?: Hook): boolean {
      const { symbols } = this as unknown as { symbols: readonly string[] };
      const fits = typeof value === 'string' && symbols.includes(value);
      if (!fits && hook !== undefined) hook(value, this);
      return fits;
    }
    override _write(tap: Tap, value: unknown): void {
      if (!this._check(value)) throw misfit();
      super._write(tap, value);
    }
  }
  const Bytes = taking('BytesType', bufferOf, (tap, value) => tap.writeBytes(value), undefined);
  const Fixed = taking<Buffer>(
    'FixedType',
    (value, { size }: { size: number }) => {
      const bytes = bufferOf(value);
      return bytes?.length === size ? bytes : undefined;
    },
    (tap, value, { size }: { size: number }) => tap.writeFixed(value, size),
    undefined,
    (value) => (bufferOf(value) === undefined ? undefined : 'it has another size'),
  );

  /** The item count is not trusted: ten bytes can claim a hundred million empty items. */
  class ListOf extends (base.ArrayType as new (...args: unknown[]) => InnerType) {
    override _read(tap: Tap): unknown {
      const { itemsType } = this as unknown as { itemsType: InnerType };
      const list: unknown[] = [];
      for (let count = tap.readLong(); count !== 0; count = tap.readLong()) {
        if (count < 0) tap.readLong();
        for (let left = Math.abs(count); left > 0; left--) {
          const from = tap.pos;
          list.push(itemsType._read(tap));
          if (tap.pos === from) countEmpty(tap);
          if (tap.pos > tap.buf.length) throw new Error('ends early');
        }
      }
      return list;
    }
  }

  class MapOf extends (base.MapType as new (...args: unknown[]) => InnerType) {
    override _check(value: unknown, flags?: unknown, hook?: Hook, path?: string[]): boolean {
      if (
        typeof value === 'object' &&
        value !== null &&
        !Object.keys(value).every((key) => key.isWellFormed())
      ) {
        hook?.(value, this);
        return false;
      }
      return super._check(value, flags, hook, path);
    }
    override _write(tap: Tap, value: unknown): void {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw misfit();
      const { valuesType } = this as unknown as { valuesType: InnerType };
      const keys = Object.keys(value);
      if (keys.length > 0) tap.writeLong(keys.length);
      for (const key of keys) {
        writeText(tap, key);
        valuesType._write(tap, (value as Readonly<Record<string, unknown>>)[key]);
      }
      tap.writeLong(0);
    }
    override _read(tap: Tap): unknown {
      const { valuesType } = this as unknown as { valuesType: InnerType };
      const map: Record<string, unknown> = {};
      for (let count = tap.readLong(); count !== 0; count = tap.readLong()) {
        if (count < 0) tap.readLong();
        for (let left = Math.abs(count); left > 0; left--) {
          if (tap.pos > tap.buf.length) throw new Error('ends early');
          const key = readText(tap);
          const value = valuesType._read(tap);
          if (key === '__proto__')
            Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true });
          else map[key] = value;
        }
      }
      return map;
    }
  }

  class Union extends (base.WrappedUnionType as new (...args: unknown[]) => InnerType) {
    override _check(value: unknown, flags?: unknown, hook?: Hook, path: string[] = []): boolean {
      const { only, found } = branchFor(this as never, value);
      if (found !== undefined) return true;
      if (hook === undefined) return false;
      if (only !== undefined) return only.type._check(only.value, flags, hook, path);
      hook(value, this);
      return false;
    }
    override _write(tap: Tap, value: unknown): void {
      const { single } = shapeOf(this as never);
      if (single !== undefined && typeof value !== 'object' && single.kind !== 'object') {
        // The branch's type checks the value.
        tap.writeLong(single.index);
        single.type._write(tap, value);
        return;
      }
      const { found } = branchFor(this as never, value);
      if (found === undefined) throw misfit();
      tap.writeLong(found.branch.index);
      if (found.value !== null) found.branch.type._write(tap, found.value);
    }
    override _read(tap: Tap): unknown {
      const index = tap.readLong();
      const { branches, isNamed } = shapeOf(this as never);
      const branch = branches[index];
      if (branch === undefined) throw new Error('no such branch');
      const value = branch.type._read(tap);
      return isNamed && branch.kind === 'object' ? { [branch.type.branchName]: value } : value;
    }
    /** Of a default value: the first branch that accepts it. */
    override _copy(value: unknown, options?: { wrap?: number }): unknown {
      if (options?.wrap !== 2) return value;
      const { branches, isNamed } = shapeOf(this as never);
      for (const { type, kind } of branches) {
        try {
          const copy = type._copy(value, options);
          return isNamed && kind === 'object' ? { [type.branchName]: copy } : copy;
        } catch {
          // Belongs to another branch.
        }
      }
      throw misfit();
    }
  }

  class Logical extends (base.LogicalType as new (...args: unknown[]) => InnerType) {
    readonly conversion: Conversion;
    constructor(schema: Schema, options: object, conversion: Conversion) {
      super(schema, options);
      this.conversion = conversion;
    }
    _fromValue(raw: never): unknown {
      return this.conversion.fromRaw(raw);
    }
    _toValue(value: unknown): unknown {
      return this.conversion.toRaw(value);
    }
    // Writer and reader have the same schema.
    _resolve(): undefined {}
    why(value: unknown): string | undefined {
      try {
        this.conversion.toRaw(value);
      } catch (error) {
        return error instanceof RangeError ? error.message : undefined;
      }
      return undefined;
    }
  }

  return {
    Long,
    RawLong,
    Float,
    Double,
    Text,
    Bytes,
    Fixed,
    Enum,
    Map: MapOf,
    List: ListOf,
    Union,
    Logical,
  } as unknown as Classes;
}

type Kind = 'null' | 'boolean' | 'number' | 'string' | 'bytes' | 'array' | 'object' | 'logical';
interface Branch {
  readonly index: number;
  readonly type: InnerType;
  readonly kind: Kind;
}
interface Shape {
  readonly branches: readonly Branch[];
  /** Several branches are records or maps: the value must name its branch. */
  readonly isNamed: boolean;
  readonly nullIndex: number | undefined;
  /** The only branch beside null. */
  readonly single: Branch | undefined;
}

const shapes = new WeakMap<object, Shape>();

function shapeOf(union: { readonly types: readonly InnerType[] }): Shape {
  let shape = shapes.get(union);
  if (shape === undefined) {
    const branches = union.types.map((type, index) => ({ index, type, kind: kindOf(type) }));
    const nulls = branches.filter(({ kind }) => kind === 'null');
    const others = branches.filter(({ kind }) => kind !== 'null');
    shape = {
      branches,
      isNamed: branches.filter(({ kind }) => kind === 'object').length > 1,
      nullIndex: nulls[0]?.index,
      single: others.length === 1 ? others[0] : undefined,
    };
    shapes.set(union, shape);
  }
  return shape;
}

function kindOf({ typeName }: InnerType): Kind {
  switch (typeName) {
    case 'null':
    case 'boolean':
    case 'string':
    case 'bytes':
    case 'array':
      return typeName;
    case 'int':
    case 'long':
    case 'float':
    case 'double':
      return 'number';
    case 'enum':
      return 'string';
    case 'fixed':
      return 'bytes';
    default:
      return typeName.startsWith('logical') ? 'logical' : 'object';
  }
}

function kindOfValue(value: unknown): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (bufferOf(value) !== undefined) return 'bytes';
  if (typeof value === 'bigint') return 'number';
  return typeof value as Kind;
}

interface Choice {
  readonly found?: { readonly branch: Branch; readonly value: unknown };
  /** No branch takes the value; errors refer to this branch. */
  readonly only?: { readonly type: InnerType; readonly value: unknown };
}

/** The first branch that takes the value without loss, else the first that takes it. */
function branchFor(union: { readonly types: readonly InnerType[] }, given: unknown): Choice {
  const { branches, isNamed, nullIndex, single } = shapeOf(union);
  if (given === null)
    return nullIndex === undefined ? {} : { found: { branch: branches[nullIndex] as Branch, value: null } };
  const named = branches.length > 1 ? namedIn(branches, isNamed, given) : undefined;
  if (named !== undefined) {
    const { branch, value } = named;
    return branch.type._check(value) ? { found: { branch, value } } : { only: { type: branch.type, value } };
  }
  if (single !== undefined) {
    if (single.type._check(given)) return { found: { branch: single, value: given } };
    const isMeant = single.kind === 'logical' || single.kind === kindOfValue(given);
    return isMeant ? { only: { type: single.type, value: given } } : {};
  }
  let lossy: Branch | undefined;
  for (const branch of branches) {
    if ((isNamed && branch.kind === 'object') || !branch.type._check(given)) continue;
    if (branch.type.typeName !== 'float' || Math.fround(given as number) === given || Number.isNaN(given))
      return { found: { branch, value: given } };
    lossy ??= branch;
  }
  if (lossy !== undefined) return { found: { branch: lossy, value: given } };
  const meant = branches.filter(({ kind }) => kind === kindOfValue(given));
  return meant.length === 1 && !(isNamed && meant[0]?.kind === 'object')
    ? { only: { type: (meant[0] as Branch).type, value: given } }
    : {};
}

/** `{ "com.example.Card": { … } }`: the JSON encoding of Avro, for similar branches. */
function namedIn(
  branches: readonly Branch[],
  isNamed: boolean,
  given: unknown,
): { readonly branch: Branch; readonly value: unknown } | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const [name, more] = Object.keys(given);
  if (name === undefined || more !== undefined) return undefined;
  const branch = branches.find(({ type }) => type.branchName === name);
  if (branch === undefined || (!isNamed && branches.some(({ kind }) => kind === 'object'))) return undefined;
  return { branch, value: (given as Record<string, unknown>)[name] };
}

/** Limit in one record of list items without bytes (`null`, records without fields). */
const maxEmptyItems = 65_536;
const emptyItems = new WeakMap<Tap, number>();

function countEmpty(tap: Tap): void {
  const count = (emptyItems.get(tap) ?? 0) + 1;
  if (count > maxEmptyItems) throw new Error('too many items that take no bytes');
  emptyItems.set(tap, count);
}

const classesOf = new Map<LargeNumbers, Classes>();

/**
 * An exact avsc type: any Avro reader gets the value that was written, and decoding returns it unchanged. Throws for an invalid
 * schema.
 */
export function exactType(schema: unknown, large: LargeNumbers = 'text'): Type {
  const { Type } = loadAvsc();
  const forSchema = Type.forSchema.bind(Type) as unknown as ForSchema;
  const classes = classesOf.get(large) ?? makeClasses(large);
  classesOf.set(large, classes);
  const make = (Made: Class): InnerType => new Made();
  const primitives = new Map<unknown, InnerType>([
    ['long', make(classes.Long)],
    ['float', make(classes.Float)],
    ['double', make(classes.Double)],
    ['string', make(classes.Text)],
    ['bytes', make(classes.Bytes)],
  ]);
  const rawLong = make(classes.RawLong);
  /** Schemas whose logical type is being built from this underlying type. */
  const underlying = new Set<unknown>();

  function typeHook(given: unknown, options: object): InnerType | undefined {
    if (Array.isArray(given)) {
      const types = given.map((each) => forSchema(each, options));
      return new classes.Union(types, options);
    }
    if (typeof given !== 'object' || given === null) return primitives.get(given);
    const schema = given as Schema;
    const { type } = schema;
    if (typeof type === 'object' && type !== null && schema.name === undefined)
      return forSchema(type, options);
    if (underlying.has(schema)) {
      if (type === 'long') return rawLong;
    } else {
      const conversion = conversionOf(schema);
      if (conversion !== undefined) {
        underlying.add(schema);
        try {
          return new classes.Logical(schema, options, conversion);
        } finally {
          underlying.delete(schema);
        }
      }
    }
    if (type === 'fixed') return new classes.Fixed(schema, options);
    if (type === 'enum') return new classes.Enum(schema, options);
    if (type === 'map') return new classes.Map(schema, options);
    if (type === 'array') return new classes.List(schema, options);
    return primitives.get(type);
  }

  return forSchema(schema, { typeHook, omitRecordMethods: true }) as unknown as Type;
}

type Raw = number | bigint | string | Buffer;

interface Conversion {
  /** `undefined`: not convertible. Throws a `RangeError` with a reason, without the value. */
  toRaw(value: unknown): Raw | undefined;
  fromRaw(raw: never): unknown;
}
type LogicalTypesSchema = { readonly [name: string]: unknown };

const daySeconds = 86_400;
const timePattern = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?$/;
const dayPattern = /^([+-]\d{6,9}|\d{4})-(\d\d)-(\d\d)$/;

/** Days since 1970-01-01 in the Gregorian calendar, for any year. */
function dayNumber(text: string): number | undefined {
  const [, year, month, day] = dayPattern.exec(text) ?? [];
  if (year === undefined) return undefined;
  const [y, m, d] = [Number(year), Number(month), Number(day)];
  if (m < 1 || m > 12 || d < 1 || d > daysIn(y, m)) throw new RangeError('there is no such day');
  return dayOf(y, m, d);
}

function dayOf(y: number, m: number, d: number): number {
  const shifted = m <= 2 ? y - 1 : y;
  const era = Math.floor(shifted / 400);
  const ofEra = shifted - era * 400;
  const ofYear = Math.floor((153 * (m + (m > 2 ? -3 : 9)) + 2) / 5) + d - 1;
  return era * 146_097 + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + ofYear - 719_468;
}

function daysIn(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
}

function dayText(number: number): string {
  const shifted = number + 719_468;
  const era = Math.floor(shifted / 146_097);
  const ofEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1_460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  );
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * ofYear + 2) / 153);
  const day = ofYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth + (shiftedMonth < 10 ? 3 : -9);
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const years =
    year >= 0 && year <= 9_999 ? padded(year, 4) : `${year < 0 ? '-' : '+'}${padded(Math.abs(year), 6)}`;
  return `${years}-${padded(month, 2)}-${padded(day, 2)}`;
}

const padded = (value: number | bigint, digits: number): string => String(value).padStart(digits, '0');

/** A time of day as seconds and their fractional digits. */
function timeOf(text: string): { readonly seconds: number; readonly fraction: string } | undefined {
  const [, hours, minutes, seconds = '0', fraction = ''] = timePattern.exec(text) ?? [];
  if (hours === undefined) return undefined;
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 59)
    throw new RangeError('there is no such time of day');
  return { seconds: (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds), fraction };
}

/** A BigInt if a number would not be exact. */
function unitsOf(seconds: number, fraction: string, digits: number): number | bigint {
  if (/[1-9]/.test(fraction.slice(digits)))
    throw new RangeError(`it has more than ${digits} fractional digits of a second`);
  const part = fraction.slice(0, digits).padEnd(digits, '0');
  const units = seconds * 10 ** digits + Number(part);
  if (Math.abs(units) < 2 ** 52) return units;
  return BigInt(seconds) * 10n ** BigInt(digits) + BigInt(part);
}

/** Seconds with three fractional digits, or a larger multiple of three if needed. */
function timeText(ofDay: bigint, digits: number): string {
  const unit = 10n ** BigInt(digits);
  const [seconds, fraction] = [ofDay / unit, padded(ofDay % unit, digits)];
  const parts = [seconds / 3_600n, (seconds / 60n) % 60n, seconds % 60n];
  return `${parts.map((part) => padded(part, 2)).join(':')}.${fraction}`;
}

/** A `Date` in JSON, for days that exist in every month. */
const usualTime = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

function usualMs(text: string): number {
  const two = (at: number): number => 10 * text.charCodeAt(at) + text.charCodeAt(at + 1) - 11 * 0x30;
  const day = dayOf(100 * two(0) + two(2), two(5), two(8));
  const seconds = ((day * 24 + two(11)) * 60 + two(14)) * 60 + two(17);
  return seconds * 1_000 + 10 * two(20) + text.charCodeAt(22) - 0x30;
}

const zonePattern = /(?:Z|([+-])(\d\d):?(\d\d))$/;

/** A time as in JSON (ISO 8601), or its number. `isLocal`: without a time zone. */
const instant = (digits: number, isLocal: boolean): Conversion => ({
  toRaw(value) {
    if (typeof value !== 'string') return wholeOf(value);
    if (digits === 3 && !isLocal && usualTime.test(value)) return usualMs(value);
    const at = value.indexOf('T');
    if (at < 0) return undefined;
    const zone = zonePattern.exec(value.slice(at));
    const day = dayNumber(value.slice(0, at));
    const time = timeOf(value.slice(at + 1, zone === null ? undefined : at + zone.index));
    if (day === undefined || time === undefined) return undefined;
    if (zone === null && !isLocal) throw new RangeError('it needs a zone, such as Z');
    const [, sign, hours = '0', minutes = '0'] = zone ?? [];
    if (sign !== undefined && isLocal) throw new RangeError('it has a zone, but a local time has no zone');
    if (Number(hours) > 23 || Number(minutes) > 59) throw new RangeError('there is no such zone');
    const offset = (Number(hours) * 60 + Number(minutes)) * 60 * (sign === '-' ? -1 : 1);
    return unitsOf(day * daySeconds + time.seconds - offset, time.fraction, digits);
  },
  fromRaw(raw: number | bigint) {
    const ofDay = 10n ** BigInt(digits) * BigInt(daySeconds);
    const units = BigInt(raw);
    const rest = ((units % ofDay) + ofDay) % ofDay;
    const text = timeText(rest, digits).replace(/(\.\d{3})(?:000){1,2}$/, '$1');
    const shown = digits === 9 ? text.replace(/(\.\d{6})000$/, '$1') : text;
    return `${dayText(Number((units - rest) / ofDay))}T${shown}${isLocal ? '' : 'Z'}`;
  },
});

const timeOfDay = (digits: number): Conversion => ({
  toRaw(value) {
    if (typeof value === 'string') {
      const time = timeOf(value);
      return time && unitsOf(time.seconds, time.fraction, digits);
    }
    const whole = wholeOf(value);
    if (whole !== undefined && (whole < 0 || whole >= daySeconds * 10 ** digits))
      throw new RangeError('there is no such time of day');
    return whole === undefined ? undefined : Number(whole);
  },
  // Times beyond the day have no text.
  fromRaw: (raw: number) =>
    raw < 0 || raw >= daySeconds * 10 ** digits ? raw : timeText(BigInt(raw), digits),
});

const date: Conversion = {
  toRaw(value) {
    if (typeof value !== 'string') return typeof value === 'number' ? wholeOf(value) : undefined;
    // A Date: its day in UTC.
    if (value.endsWith('Z') && value.includes('T')) {
      if (timeOf(value.slice(value.indexOf('T') + 1, -1)) === undefined) return undefined;
      return dayNumber(value.slice(0, value.indexOf('T')));
    }
    return dayNumber(value);
  },
  fromRaw: (raw: number) => dayText(raw),
};

const decimalPattern = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?$/;
/** More digits than any database column has. */
const maxDigits = 10_000;

/** Bytes or fixed: `precision` digits, `scale` of them fractional. Read as a number, or as text if that would lose digits. */
function decimal({ precision, scale = 0, size }: LogicalTypesSchema): Conversion {
  const [max, behind] = [Number(precision), Number(scale)];
  return {
    toRaw(value) {
      const whole = typeof value === 'number' ? undefined : wholeOf(value);
      const text = whole === undefined ? (typeof value === 'number' ? String(value) : value) : String(whole);
      if (typeof text !== 'string' || text.length > maxDigits) return undefined;
      const [, sign, before = '', after = '', exponent = '0'] = decimalPattern.exec(text) ?? [];
      const digits = (before + after).replace(/^0+(?=\d)/, '');
      if (sign === undefined || digits === '') return undefined;
      const shift = behind - after.length + Number(exponent);
      if (digits !== '0' && shift > maxDigits) throw new RangeError(`it has more than ${max} digits`);
      if (shift < 0 && /[1-9]/.test(digits.slice(shift)))
        throw new RangeError(`it has more than ${behind} digits after the point`);
      const shifted = digits === '0' ? '0' : shift < 0 ? digits.slice(0, shift) : digits + '0'.repeat(shift);
      const unscaled = BigInt(shifted || '0');
      if (String(unscaled).length > max) throw new RangeError(`it has more than ${max} digits`);
      return bytesOf(sign === '-' ? -unscaled : unscaled, size as number | undefined);
    },
    fromRaw(raw: Buffer) {
      const unscaled = BigInt.asIntN(raw.length * 8, BigInt(`0x0${raw.toString('hex')}`));
      const digits = padded(unscaled < 0n ? -unscaled : unscaled, behind + 1);
      const at = digits.length - behind;
      return `${unscaled < 0n ? '-' : ''}${digits.slice(0, at)}${behind > 0 ? `.${digits.slice(at)}` : ''}`;
    },
  };
}

/** Two's complement, big-endian. */
function bytesOf(value: bigint, size: number | undefined): Buffer {
  let length = 1;
  while (BigInt.asIntN(length * 8, value) !== value) length++;
  if (size !== undefined && length > size) throw new RangeError(`it does not fit in ${size} bytes`);
  const bits = (size ?? length) * 8;
  const hex = BigInt.asUintN(bits, value).toString(16);
  return Buffer.from(hex.padStart(bits / 4, '0'), 'hex');
}

const textOfUuid: Conversion = {
  toRaw(value) {
    if (typeof value === 'string' && !uuidForm.test(value))
      throw new RangeError('it does not have this form');
    return typeof value === 'string' ? value : undefined;
  },
  fromRaw: (raw: string) => raw,
};

const bytesOfUuid: Conversion = {
  toRaw(value) {
    if (typeof value !== 'string') return value as Buffer;
    if (!uuidForm.test(value)) throw new RangeError('it does not have this form');
    return Buffer.from(value.replaceAll('-', ''), 'hex');
  },
  fromRaw: (raw: Buffer) => raw.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
};

/** By the names of the logical type and its underlying type. */
const conversions: Readonly<Record<string, (schema: LogicalTypesSchema) => Conversion | undefined>> = {
  'timestamp-millis long': () => instant(3, false),
  'timestamp-micros long': () => instant(6, false),
  'timestamp-nanos long': () => instant(9, false),
  'local-timestamp-millis long': () => instant(3, true),
  'local-timestamp-micros long': () => instant(6, true),
  'local-timestamp-nanos long': () => instant(9, true),
  'time-millis int': () => timeOfDay(3),
  'time-micros long': () => timeOfDay(6),
  'date int': () => date,
  'decimal bytes': decimalOf,
  'decimal fixed': decimalOf,
  'uuid string': () => textOfUuid,
  'uuid fixed': ({ size }) => (size === 16 ? bytesOfUuid : undefined),
};

function decimalOf(schema: LogicalTypesSchema): Conversion | undefined {
  const { precision, scale = 0 } = schema;
  const isValid =
    Number.isInteger(precision) &&
    Number.isInteger(scale) &&
    0 <= Number(scale) &&
    Number(scale) <= Number(precision);
  return isValid && Number(precision) > 0 ? decimal(schema) : undefined;
}

/** `undefined` for an invalid logical type: its underlying type applies, as in Avro's specification. */
function conversionOf(schema: LogicalTypesSchema): Conversion | undefined {
  const { logicalType, type } = schema;
  const name = `${String(logicalType)} ${String(type)}`;
  return Object.hasOwn(conversions, name) ? conversions[name]?.(schema) : undefined;
}

let loaded: typeof Avsc | undefined;

/** Loads avsc, synchronously, because serialization is synchronous. Throws if it is not installed. */
export function loadAvsc(): typeof Avsc {
  loaded ??= runOwnWork(() => {
    try {
      return createRequire(import.meta.url)('avsc') as typeof Avsc;
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND';
      const why = isMissing ? 'which is not installed: npm install avsc' : 'which cannot be loaded';
      throw new SvcError(
        'SVC_ADAPTERS_PACKAGE_MISSING',
        `svc.serde.type AVRO needs the package avsc, ${why}`,
      );
    }
  });
  return loaded;
}
