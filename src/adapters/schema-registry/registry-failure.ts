import { SvcError } from '../../ground/errors.ts';
import type { JsonAnswer } from '../../ground/http/ask-json.ts';

/** No answer for now: nothing is wrong with the schema. */
export function awayError(address: string, why: string): SvcError {
  return new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', `schema registry at ${address}: ${why}`);
}

/** One line for an operator. The text of an answer may quote a schema, and is never told. */
export function answerError({ status }: JsonAnswer, address: string, subject: string): SvcError {
  const refused = refusalOf(status, subject);
  if (refused !== undefined)
    return new SvcError('SVC_SERIALIZE_SCHEMA_REFUSED', `schema registry at ${address}: ${refused}`);
  return awayError(address, awayWhy(status, subject));
}

function refusalOf(status: number, subject: string): string | undefined {
  switch (status) {
    case 404:
      return `subject ${subject} does not have this schema: register it, or set svc.serde.auto-register: true`;
    case 409:
      return `the schema is not compatible with what subject ${subject} holds (409): change the schema, or the compatibility of the subject`;
    case 422:
      return `it does not take the schema of subject ${subject} as one of Avro (422)`;
    default:
      return undefined;
  }
}

function awayWhy(status: number, subject: string): string {
  if (status === 401)
    return 'it wants other credentials (401): correct svc.serde.schema-registry-username and -password, or the token';
  if (status === 403) return `the credentials have no rights on ${subject} (403)`;
  if (status >= 300 && status < 400)
    return `it answers with a redirect (${status}), which is not followed: correct the address`;
  return `it answers with status ${status}`;
}

/** Why there was no whole answer at all. */
export function transportError(thrown: unknown, address: string): SvcError {
  const { code } = thrown as NodeJS.ErrnoException;
  const word = typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'unknown error';
  return awayError(address, whyOf(word));
}

function whyOf(code: string): string {
  if (code === 'TIMEOUT') return 'it has not answered in time';
  if (code === 'TOO_LARGE') return 'its answer is too large for a schema';
  if (code === 'NOT_JSON') return 'its answer is not JSON: is that a schema registry?';
  if (code === 'ERR_INVALID_CHAR') return 'the credentials have characters that no HTTP header can carry';
  if (/CERT|SIGNATURE|SELF_SIGNED|ERR_TLS/.test(code))
    return `its certificate is not trusted (${code}): name its authority in svc.serde.schema-registry-ca-file`;
  return `it cannot be reached (${code})`;
}
