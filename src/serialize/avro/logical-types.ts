import type * as Avsc from 'avsc';
import { loadAvsc } from './avsc.ts';

type Raw = number | Buffer;
/** Reads and writes one logical type. `toRaw` gives `undefined` for what has no such form. */
interface Conversion {
  toRaw(value: unknown): Raw | undefined;
  fromRaw(raw: Raw): unknown;
}
type Schema = { readonly [name: string]: unknown };

const dayMs = 86_400_000;
const isoTime = /^\d{4,}-\d\d-\d\dT/;
const isoDay = /^\d{4}-\d\d-\d\d$/;
const timeOfDay = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?$/;

/** A time as JSON has it (ISO 8601), or the number that is written. */
const instant = (perMs: number): Conversion => ({
  toRaw: (value) => {
    if (typeof value === 'number') return whole(value);
    return typeof value === 'string' && isoTime.test(value) ? whole(Date.parse(value) * perMs) : undefined;
  },
  fromRaw: (raw) => new Date(Math.floor((raw as number) / perMs)).toISOString(),
});

const timeOf = (perSecond: number): Conversion => ({
  toRaw: (value) => {
    if (typeof value === 'number') return whole(value);
    const [text, hours, minutes, seconds = '0', fraction = ''] =
      (typeof value === 'string' && timeOfDay.exec(value)) || [];
    if (text === undefined) return undefined;
    const wholeSeconds = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
    return whole(wholeSeconds * perSecond + Math.floor((Number(fraction.padEnd(6, '0')) / 1e6) * perSecond));
  },
  fromRaw: (raw) => {
    const digits = perSecond === 1_000 ? 3 : 6;
    const [seconds, fraction] = [Math.floor((raw as number) / perSecond), (raw as number) % perSecond];
    const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
    return `${parts.map((part) => String(part).padStart(2, '0')).join(':')}.${String(fraction).padStart(digits, '0')}`;
  },
});

const date: Conversion = {
  toRaw: (value) => {
    if (typeof value === 'number') return whole(value);
    if (typeof value !== 'string' || !(isoDay.test(value) || isoTime.test(value))) return undefined;
    return whole(Math.floor(Date.parse(value) / dayMs));
  },
  fromRaw: (raw) => new Date((raw as number) * dayMs).toISOString().slice(0, 10),
};

/** Of bytes or a fixed, `precision` digits of which `scale` stand behind the point: a number, or a text that loses none of them. */
function decimal({ precision, scale = 0, size }: Schema): Conversion {
  const [most, behind] = [Number(precision), Number(scale)];
  return {
    toRaw: (value) => {
      const text = typeof value === 'number' ? String(value) : value;
      const [, sign = '', digits, fraction = ''] =
        (typeof text === 'string' && /^(-?)(\d+)(?:\.(\d+))?$/.exec(text)) || [];
      if (digits === undefined || fraction.slice(behind).replaceAll('0', '') !== '') return undefined;
      const unscaled = BigInt(digits + fraction.slice(0, behind).padEnd(behind, '0'));
      if (String(unscaled).length > most) return undefined;
      return bytesOf(sign === '-' ? -unscaled : unscaled, size as number | undefined);
    },
    fromRaw: (raw) => {
      const bytes = raw as Buffer;
      const unscaled = BigInt.asIntN(bytes.length * 8, BigInt(`0x0${bytes.toString('hex')}`));
      const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(behind + 1, '0');
      const at = digits.length - behind;
      return `${unscaled < 0n ? '-' : ''}${digits.slice(0, at)}${behind > 0 ? `.${digits.slice(at)}` : ''}`;
    },
  };
}

/** Two's complement, the most significant byte first. */
function bytesOf(value: bigint, size: number | undefined): Buffer | undefined {
  let length = 1;
  while (BigInt.asIntN(length * 8, value) !== value) length++;
  if (size !== undefined && length > size) return undefined;
  const bits = (size ?? length) * 8;
  return Buffer.from(
    BigInt.asUintN(bits, value)
      .toString(16)
      .padStart(bits / 4, '0'),
    'hex',
  );
}

/** As JSON has a Buffer: `{"type":"Buffer","data":[…]}`. */
const bytes: Conversion = {
  toRaw: (value) => {
    const { type, data } = (value ?? {}) as { type?: unknown; data?: unknown };
    return type === 'Buffer' && Array.isArray(data) ? Buffer.from(data) : undefined;
  },
  fromRaw: (raw) => raw,
};

function whole(value: number): number | undefined {
  return Number.isSafeInteger(value) ? value : undefined;
}

const conversions: Readonly<Record<string, (schema: Schema) => Conversion>> = {
  'timestamp-millis': () => instant(1),
  'timestamp-micros': () => instant(1_000),
  'time-millis': () => timeOf(1_000),
  'time-micros': () => timeOf(1_000_000),
  date: () => date,
  decimal,
};

/** What each value of a JSON document becomes on its way into Avro, and back: options for `Type.forSchema`. */
export function logicalOptions(): Pick<Avsc.ForSchemaOptions, 'logicalTypes' | 'typeHook'> {
  const { types } = loadAvsc();
  const classOf = (conversionOf: (schema: Schema) => Conversion) =>
    class extends types.LogicalType {
      readonly conversion: Conversion;
      constructor(schema: Avsc.Schema, options?: unknown) {
        super(schema, options);
        this.conversion = conversionOf(schema as unknown as Schema);
      }
      override _fromValue(raw: Raw): unknown {
        return this.conversion.fromRaw(raw);
      }
      override _toValue(value: unknown): Raw | undefined {
        return this.conversion.toRaw(value);
      }
      // Writer and reader have the same logical type.
      override _resolve(type: Avsc.Type): unknown {
        return type instanceof this.constructor ? this._fromValue : undefined;
      }
    };
  const named = Object.fromEntries(
    Object.entries(conversions).map(([name, conversionOf]) => [name, classOf(conversionOf)]),
  );
  const Bytes = classOf(() => bytes);
  return {
    logicalTypes: named as unknown as Avsc.ForSchemaOptions['logicalTypes'],
    typeHook(schema, { registry, namespace }) {
      const { type, logicalType } =
        typeof schema === 'string' ? { type: schema, logicalType: undefined } : (schema as Schema);
      if (logicalType !== undefined || (type !== 'bytes' && type !== 'fixed')) return undefined;
      const plain = type === 'bytes' ? { type: 'bytes' } : schema;
      return new Bytes(plain as Avsc.Schema, { registry, namespace }) as unknown as Avsc.Type;
    },
  };
}
