import { uuidForm } from '../../ground/event-id.ts';
import { wholeOf } from './plain-json.ts';

type Raw = number | bigint | string | Buffer;

/** Reads and writes one logical type. */
export interface Conversion {
  /** `undefined` for what has no such form; throws a `RangeError` that says why, without the value. */
  toRaw(value: unknown): Raw | undefined;
  fromRaw(raw: never): unknown;
}
type Schema = { readonly [name: string]: unknown };

const daySeconds = 86_400;
const timePattern = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?$/;
const dayPattern = /^([+-]\d{6,9}|\d{4})-(\d\d)-(\d\d)$/;

/** Days since 1970-01-01 in the Gregorian calendar, for any year. */
function dayNumber(text: string): number | undefined {
  const [, year, month, day] = dayPattern.exec(text) ?? [];
  if (year === undefined) return undefined;
  const [y, m, d] = [Number(year), Number(month), Number(day)];
  if (m < 1 || m > 12 || d < 1 || d > daysIn(y, m)) throw new RangeError('there is no such day');
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

/** A time of day as seconds, and the digits behind them. */
function timeOf(text: string): { readonly seconds: number; readonly fraction: string } | undefined {
  const [, hours, minutes, seconds = '0', fraction = ''] = timePattern.exec(text) ?? [];
  if (hours === undefined) return undefined;
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 59)
    throw new RangeError('there is no such time of day');
  return { seconds: (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds), fraction };
}

/** Of seconds and the digits behind them: a number where it is exact. */
function unitsOf(seconds: number, fraction: string, digits: number): number | bigint {
  if (/[1-9]/.test(fraction.slice(digits)))
    throw new RangeError(`it has more than ${digits} digits behind the second`);
  const part = fraction.slice(0, digits).padEnd(digits, '0');
  const units = seconds * 10 ** digits + Number(part);
  if (Math.abs(units) < 2 ** 52) return units;
  return BigInt(seconds) * 10n ** BigInt(digits) + BigInt(part);
}

/** Seconds, and what is behind them as text: of three digits, or as many threes more as it needs. */
function timeText(ofDay: bigint, digits: number): string {
  const unit = 10n ** BigInt(digits);
  const [seconds, fraction] = [ofDay / unit, padded(ofDay % unit, digits)];
  const parts = [seconds / 3_600n, (seconds / 60n) % 60n, seconds % 60n];
  return `${parts.map((part) => padded(part, 2)).join(':')}.${fraction}`;
}

const zonePattern = /(?:Z|([+-])(\d\d):?(\d\d))$/;

/** A point in time as JSON has it (ISO 8601), or the number that is written. `isLocal`: by the clock on the wall, of no zone. */
const instant = (digits: number, isLocal: boolean): Conversion => ({
  toRaw(value) {
    if (typeof value !== 'string') return wholeOf(value);
    const at = value.indexOf('T');
    if (at < 0) return undefined;
    const zone = zonePattern.exec(value.slice(at));
    const day = dayNumber(value.slice(0, at));
    const time = timeOf(value.slice(at + 1, zone === null ? undefined : at + zone.index));
    if (day === undefined || time === undefined) return undefined;
    if (zone === null && !isLocal) throw new RangeError('it needs a zone, such as Z');
    const [, sign, hours = '0', minutes = '0'] = zone ?? [];
    if (sign !== undefined && isLocal) throw new RangeError('it has a zone, which a local time has not');
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
  // One beyond the day has no text.
  fromRaw: (raw: number) =>
    raw < 0 || raw >= daySeconds * 10 ** digits ? raw : timeText(BigInt(raw), digits),
});

const date: Conversion = {
  toRaw(value) {
    if (typeof value !== 'string') return typeof value === 'number' ? wholeOf(value) : undefined;
    // A Date: the day that it is in UTC.
    if (value.endsWith('Z') && value.includes('T')) {
      if (timeOf(value.slice(value.indexOf('T') + 1, -1)) === undefined) return undefined;
      return dayNumber(value.slice(0, value.indexOf('T')));
    }
    return dayNumber(value);
  },
  fromRaw: (raw: number) => dayText(raw),
};

const decimalPattern = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?$/;
/** Far more than any column of a database has. */
const mostDigits = 10_000;

/** Of bytes or a fixed, `precision` digits of which `scale` stand behind the point: a number, or a text that loses none of them. */
function decimal({ precision, scale = 0, size }: Schema): Conversion {
  const [most, behind] = [Number(precision), Number(scale)];
  return {
    toRaw(value) {
      const whole = typeof value === 'number' ? undefined : wholeOf(value);
      const text = whole === undefined ? (typeof value === 'number' ? String(value) : value) : String(whole);
      if (typeof text !== 'string' || text.length > mostDigits) return undefined;
      const [, sign, before = '', after = '', exponent = '0'] = decimalPattern.exec(text) ?? [];
      const digits = (before + after).replace(/^0+(?=\d)/, '');
      if (sign === undefined || digits === '') return undefined;
      const shift = behind - after.length + Number(exponent);
      if (digits !== '0' && shift > mostDigits) throw new RangeError(`it has more than ${most} digits`);
      if (shift < 0 && /[1-9]/.test(digits.slice(shift)))
        throw new RangeError(`it has more than ${behind} digits behind the point`);
      const shifted = digits === '0' ? '0' : shift < 0 ? digits.slice(0, shift) : digits + '0'.repeat(shift);
      const unscaled = BigInt(shifted || '0');
      if (String(unscaled).length > most) throw new RangeError(`it has more than ${most} digits`);
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

/** Two's complement, the most significant byte first. */
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
      throw new RangeError('it has not the form of one');
    return typeof value === 'string' ? value : undefined;
  },
  fromRaw: (raw: string) => raw,
};

const bytesOfUuid: Conversion = {
  toRaw(value) {
    if (typeof value !== 'string') return value as Buffer;
    if (!uuidForm.test(value)) throw new RangeError('it has not the form of one');
    return Buffer.from(value.replaceAll('-', ''), 'hex');
  },
  fromRaw: (raw: Buffer) => raw.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
};

/** By the name of the logical type, and of the type that it is of. */
const conversions: Readonly<Record<string, (schema: Schema) => Conversion | undefined>> = {
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

function decimalOf(schema: Schema): Conversion | undefined {
  const { precision, scale = 0 } = schema;
  const isValid =
    Number.isInteger(precision) &&
    Number.isInteger(scale) &&
    0 <= Number(scale) &&
    Number(scale) <= Number(precision);
  return isValid && Number(precision) > 0 ? decimal(schema) : undefined;
}

/** Of a schema with a logical type that is valid. Of any other, the type it is of counts, as the specification of Avro wants it. */
export function conversionOf(schema: Schema): Conversion | undefined {
  const { logicalType, type } = schema;
  const name = `${String(logicalType)} ${String(type)}`;
  return Object.hasOwn(conversions, name) ? conversions[name]?.(schema) : undefined;
}
