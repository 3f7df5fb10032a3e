import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ask } from '../http-client.ts';
import { serverHarness } from '../server-harness.ts';

const token = 'a-token-of-some-length';
const page = '/actuator/svc';
const files = {
  [page]: 'text/html; charset=utf-8',
  '/actuator/svc/console.js': 'text/javascript; charset=utf-8',
  '/actuator/svc/console.css': 'text/css; charset=utf-8',
};
const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

describe('the console over HTTP', () => {
  const { start } = serverHarness();
  const elsewhere = { address: '0.0.0.0', token };

  it('is three files under the strictest policy, of less than 60 KB compressed', async () => {
    const port = await start();
    let bytes = 0;
    for (const [path, type] of Object.entries(files)) {
      const { status, headers, body } = await ask(port, path);
      assert.equal(status, 200, path);
      assert.equal(headers['content-type'], type);
      assert.equal(
        headers['content-security-policy'],
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      bytes += gzipSync(body).length;
    }
    assert.ok(bytes > 20_000 && bytes < 60_000, `${bytes} bytes`);
  });

  it('refers to its own files by relative addresses only', () => {
    const html = readFileSync(resolve(import.meta.dirname, '../../../dist/console/console.html'), 'utf8');
    const addresses = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address);
    assert.deepEqual(addresses, ['svc/console.css', 'svc/console.js']);
  });

  it('is opened by a link on another site, and by nothing else from there', async () => {
    const port = await start();
    assert.equal((await ask(port, page, { headers: link })).status, 200);
    const others = [
      [page, { ...link, 'sec-fetch-dest': 'iframe' }],
      [page, { ...link, 'sec-fetch-mode': 'no-cors' }],
      [page, { ...link, origin: 'https://evil.example' }],
      ['/actuator/svc/console.js', link],
      ['/actuator/svc/console.json', link],
      ['/actuator/health', link],
    ] as const;
    for (const [path, headers] of others)
      assert.equal((await ask(port, path, { headers })).status, 403, `${path} ${JSON.stringify(headers)}`);
    assert.equal((await ask(port, page, { method: 'POST', headers: link })).status, 403);
  });

  it('holds no data where a token is needed: the shell is for all, the document for the token', async () => {
    const port = await start(elsewhere);
    for (const path of Object.keys(files)) assert.equal((await ask(port, path)).status, 200, path);
    const path = '/actuator/svc/console.json';
    assert.equal((await ask(port, path)).status, 401);
    const wrong = { authorization: 'Bearer another-token-of-a-length' };
    assert.equal((await ask(port, path, { headers: wrong })).status, 401);
    const { status, body } = await ask(port, path, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(status, 200);
    assert.ok(JSON.parse(body).actions.includes('dlq-recover'));
  });

  it('hands over from which time on the page needs points', async () => {
    const port = await start();
    const ofAfter = (after: string) => ask(port, `/actuator/svc/console.json?after=${after}`);
    assert.equal(JSON.parse((await ofAfter('1764000000000')).body).afterMs, 1_764_000_000_000);
    for (const after of ['-1', 'x', '1e3', '9'.repeat(16)]) assert.equal((await ofAfter(after)).status, 400);
  });
});
