import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How the server answers: as S3 does, or with one of its troubles. */
export type Trouble =
  | 'none'
  | 'hang'
  | 'slow'
  | 'hang in body'
  | 'reset'
  | '500'
  | '503'
  | 'NoSuchBucket'
  | 'AccessDenied'
  | 'SignatureDoesNotMatch'
  | 'no conditional put'
  | 'no checksums (B2)'
  | 'no checksums (R2)'
  | 'no checksums, no conditional put'
  | 'no checksums, and no word'
  | 'a page with 200'
  | 'empty 200'
  | '412 to all'
  | 'a page with 412'
  | 'ETags of its own'
  | 'ETags of its own, and no HEAD'
  | 'ETags of KMS, and no HEAD'
  | 'MD5, and no HEAD'
  | 'ETags that lie'
  | '412 without HEAD';

interface Stored {
  readonly body: Buffer;
  readonly metadata: Record<string, string>;
}

/** A small S3 of one bucket, for its faults: what S3 itself does is tested against a real server. */
export interface FakeS3 {
  readonly endpoint: string;
  readonly objects: Map<string, Stored>;
  readonly requests: string[];
  /** The name of the error that the object of this key gives to whoever reads it. */
  readonly unreadable: Map<string, string>;
  trouble: Trouble;
  /** What is answered instead of a page of the list. */
  page: ((token: string) => string) | undefined;
  /** An object of this key never ends. `bytesSent` counts what of it was taken. */
  endless: string | undefined;
  bytesSent: number;
  /** So many requests more are refused as too many. */
  busyFor: number;
  close(): Promise<void>;
}

export async function startFakeS3(): Promise<FakeS3> {
  const objects = new Map<string, Stored>();
  const requests: string[] = [];
  const unreadable = new Map<string, string>();
  const server: Server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const fake: FakeS3 = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    requests,
    unreadable,
    trouble: 'none',
    page: undefined,
    endless: undefined,
    bytesSent: 0,
    busyFor: 0,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '/', fake.endpoint);
    const [, bucket, ...rest] = decodeURIComponent(url.pathname).split('/');
    const key = rest.join('/');
    requests.push(`${request.method} ${key || url.search}`);
    const { trouble } = fake;
    const refuse = (status: number, code: string, message = 'secret-key in a message'): void => {
      response.writeHead(status, { 'content-type': 'application/xml' });
      response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
    };
    if (trouble === 'hang') return;
    if (trouble === 'slow') await new Promise((resolve) => setTimeout(resolve, 700));
    if (trouble === 'reset') return void request.socket.destroy();
    const page = `<!doctype html><title>Welcome</title>${' '.repeat(300)}`;
    if (trouble === 'a page with 200') return void response.writeHead(200, { etag: '"5f3-6a"' }).end(page);
    if (trouble === 'a page with 412') return void response.writeHead(412).end(page);
    if (trouble === 'empty 200') return void response.end();
    if (trouble === '412 to all') return void response.writeHead(412).end();
    if (request.method === 'HEAD' && / no HEAD|without HEAD/.test(trouble))
      return void response.writeHead(403).end();
    if (trouble === '500') return refuse(500, 'InternalError');
    if (trouble === '503' || fake.busyFor-- > 0) return refuse(503, 'SlowDown');
    if (trouble === 'NoSuchBucket' || bucket !== 'bucket') return refuse(404, 'NoSuchBucket');
    if (trouble === 'AccessDenied' || trouble === 'SignatureDoesNotMatch') return refuse(403, trouble);
    const isUnknown = request.headers['x-amz-checksum-crc32'] ?? request.headers['x-amz-checksum-mode'];
    if (trouble.startsWith('no checksums') && isUnknown !== undefined)
      return trouble.endsWith('(B2)')
        ? refuse(400, 'InvalidArgument', "Unsupported header 'x-amz-checksum-crc32'")
        : trouble.endsWith('no word')
          ? refuse(
              501,
              'NotImplemented',
              'A header you provided implies functionality that is not implemented',
            )
          : refuse(501, 'NotImplemented', "Header 'x-amz-checksum-crc32' not implemented");
    if (trouble.endsWith('no conditional put') && request.headers['if-none-match'])
      return refuse(501, 'NotImplemented');

    if (request.method === 'PUT') {
      const source = request.headers['x-amz-copy-source'];
      if (typeof source === 'string') {
        const from = objects.get(decodeURIComponent(source).replace(/^\/?bucket\//, ''));
        if (from === undefined) return refuse(404, 'NoSuchKey');
        const match = request.headers['x-amz-copy-source-if-match'];
        if (match !== undefined && match !== etagOf(from.body)) return refuse(412, 'PreconditionFailed');
        objects.set(key, from);
        response.end('<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>');
        return;
      }
      if (request.headers['if-none-match'] === '*' && objects.has(key))
        return refuse(412, 'PreconditionFailed');
      const body = bodyOf(request, Buffer.concat(chunks));
      if (trouble !== 'ETags that lie') objects.set(key, { body, metadata: metadataOf(request) });
      const isOwn = /^ETags/.test(trouble);
      if (/KMS/.test(trouble)) response.setHeader('x-amz-server-side-encryption', 'aws:kms');
      response.writeHead(200, { etag: isOwn ? `"${'0'.repeat(32)}"` : etagOf(body) }).end();
      return;
    }
    if (request.method === 'DELETE') {
      objects.delete(key);
      response.writeHead(204).end();
      return;
    }
    if (key === '') return list(url.searchParams, response);
    if (key === fake.endless) return pour(response);
    const found = objects.get(key);
    if (found === undefined) return refuse(404, 'NoSuchKey');
    const why = unreadable.get(key);
    if (why !== undefined) return refuse(403, why);
    const headers = Object.entries(found.metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
    const about = { etag: etagOf(found.body), 'content-length': found.body.length };
    response.writeHead(200, { ...about, ...Object.fromEntries(headers) });
    if (trouble === 'hang in body') response.write(found.body.subarray(0, 1));
    else response.end(found.body);
  }

  function pour(response: ServerResponse): void {
    const piece = Buffer.alloc(256 * 1024, ' ');
    const more = (): void => {
      while (!response.destroyed && fake.bytesSent < 4 * 1024 ** 3) {
        fake.bytesSent += piece.length;
        if (!response.write(piece)) return;
      }
      response.end();
    };
    response.on('drain', more);
    more();
  }

  /** Two keys a page. */
  function list(query: URLSearchParams, response: ServerResponse): void {
    const after = query.get('continuation-token') ?? '';
    if (fake.page !== undefined) {
      const page = fake.page(after);
      if (page === 'endless') {
        pour(response);
        return;
      }
      response.setHeader('content-type', 'application/xml');
      response.end(`<?xml version="1.0"?><ListBucketResult>${page}</ListBucketResult>`);
      return;
    }
    const keys = [...objects.keys()]
      .filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after)
      .sort();
    const page = keys.slice(0, 2);
    const contents = page
      .map((key) => `<Contents><Key>${key}</Key><Size>${objects.get(key)?.body.length}</Size></Contents>`)
      .join('');
    const next =
      keys.length > 2
        ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${page[1]}</NextContinuationToken>`
        : '';
    response.setHeader('content-type', 'application/xml');
    response.end(`<?xml version="1.0"?><ListBucketResult>${contents}${next}</ListBucketResult>`);
  }

  return fake;
}

const etagOf = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;

/** Without the frames of a signed or checked stream. */
function bodyOf({ headers }: IncomingMessage, bytes: Buffer): Buffer {
  if (!String(headers['content-encoding'] ?? '').includes('aws-chunked')) return bytes;
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.subarray(at, end).toString(), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

function metadataOf({ headers }: IncomingMessage): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith('x-amz-meta-')) found[name.slice('x-amz-meta-'.length)] = String(value);
  }
  return found;
}
