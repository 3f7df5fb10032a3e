import { SvcError } from '../../ground/errors.ts';
import { type StoreFault, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';

const faults: Readonly<Record<string, StoreFault>> = {
  '28000': 'signIn',
  '28P01': 'signIn',
  '3D000': 'signIn',
  '25006': 'readOnly',
  '42501': 'notAllowed',
  '42P01': 'tableMissing',
  '3F000': 'tableMissing',
  '42703': 'otherTable',
  '42804': 'otherTable',
  '42809': 'otherTable',
  '42P17': 'otherTable',
  '57014': 'late',
  '55P03': 'late',
  '53300': 'full',
};

/** Made of the code alone: message, detail and hint hold values. */
export function toPostgresError(error: unknown, details: StoreFaultDetails): SvcError {
  if (error instanceof SvcError) return error;
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = typeof code === 'string' ? code : undefined;
  if (text === undefined && (error instanceof TypeError || error instanceof RangeError))
    return storeError('statement', details);
  return storeError(faultOf(text, String(message)), { ...details, code: text });
}

function faultOf(code: string | undefined, message: string): StoreFault {
  // pg's own errors have no code: a password that is missing, or a connection that has ended.
  if (code === undefined) return /\b(password|SASL|SCRAM)\b/i.test(message) ? 'signIn' : 'unreachable';
  const known = faults[code];
  if (known !== undefined) return known;
  // Connection, resources, operator: too many connections, and a server that stops or starts.
  return /^(08|53|57)\w{3}$/.test(code) || /^E[A-Z]{3,}$/.test(code) || /_/.test(code)
    ? 'unreachable'
    : 'statement';
}

/** Serialization failure, deadlock. */
export function isPassingInPostgres(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === '40001' || code === '40P01';
}

export function isReadOnlyInPostgres(error: unknown): boolean {
  return faults[String((error as { code?: unknown } | undefined)?.code)] === 'readOnly';
}
