import type { IncomingMessage } from 'node:http';
import { problem, type Reply } from './reply.ts';

/** The JSON object of a request, or the answer to one that has none that can be read. */
export type JsonBody = { readonly fields: Readonly<Record<string, unknown>> } | { readonly refusal: Reply };

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
}

/** No endpoint needs as much. */
const mostBytes = 16 * 1024;
const jsonTypes = /^application\/(?:json|vnd\.[\w.-]+\.actuator\.v3\+json)$/;

/** Never rejects. The headers are looked at before a byte of the body is read. */
export async function readJsonBody(request: IncomingMessage, askForBody: () => void): Promise<JsonBody> {
  const {
    'content-type': type = '',
    'content-encoding': encoding,
    'content-length': length,
  } = request.headers;
  if (!isJson(type) || (encoding !== undefined && encoding !== 'identity')) {
    const detail =
      'The body must be application/json or application/vnd.<name>.actuator.v3+json, in UTF-8 and not compressed.';
    return { refusal: problem(415, detail) };
  }
  if (Number(length) > mostBytes) return tooLarge;
  askForBody();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) return tooLarge;
      chunks.push(chunk as Buffer);
    }
    const value = JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { fields: value as Record<string, unknown> };
  } catch {
    // Cut off, or no JSON: the same answer.
  }
  return { refusal: problem(400, 'The body is not a JSON object.') };
}

const tooLarge: JsonBody = { refusal: problem(413, `The body is larger than ${mostBytes} bytes.`) };

function isJson(contentType: string): boolean {
  const [type = '', ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase());
  return jsonTypes.test(type) && parameters.every((parameter) => /^(charset="?utf-8"?)?$/.test(parameter));
}
