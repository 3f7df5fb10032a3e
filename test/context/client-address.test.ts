import assert from 'node:assert/strict';
import {
  type ContextOptions,
  type ContextScope,
  contextStorage,
  createScope,
} from '../../src/context/context-store.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { useLogger } from '../support/log.ts';

const trusting: ContextOptions = {
  useForwardedHeaders: true,
  trustedProxies: ['10.0.0.0/8', '192.168.1.1', 'fd00::/8'],
};

/** Reads the client address of the events of each scope. */
function clientReader(options: ContextOptions): (scope: ContextScope) => string | null {
  const readOrigin = createOriginReader(options);
  return (scope) => contextStorage().run({ scope, added: null }, () => readOrigin().clientIp);
}

function clientOf(options: ContextOptions, peer: string | undefined, headers: Record<string, string> = {}) {
  return clientReader(options)(createScope({}, headers, peer));
}

const viaProxy = (xForwardedFor: string) =>
  clientOf(trusting, '::ffff:10.0.0.1', { 'x-forwarded-for': xForwardedFor });

const viaForwarded = (forwarded: string) =>
  clientOf({ ...trusting, forwardedHeader: 'forwarded' }, '10.0.0.1', { forwarded });

describe('the client address of an event', () => {
  it('reads the socket, and no header, by default', () => {
    const headers = { 'x-forwarded-for': '1.1.1.1', forwarded: 'for=1.1.1.1' };
    assert.equal(clientOf({}, '203.0.113.9', headers), '203.0.113.9');
    assert.equal(clientOf({ trustedProxies: ['203.0.113.9'] }, '203.0.113.9', headers), '203.0.113.9');
    assert.equal(clientOf({}, '::ffff:203.0.113.9'), '203.0.113.9');
    assert.equal(clientOf({}, 'fe80::1%eth0'), 'fe80::1');
    assert.equal(clientOf({}, undefined), null);
  });

  it('reads no header of a peer that is not trusted', () => {
    assert.equal(clientOf(trusting, '203.0.113.9', { 'x-forwarded-for': '1.1.1.1' }), '203.0.113.9');
    assert.equal(
      clientOf({ useForwardedHeaders: true }, '10.0.0.1', { forwarded: 'for=1.1.1.1' }),
      '10.0.0.1',
    );
  });

  it('takes the first address from the right that is not trusted', () => {
    assert.equal(viaProxy('203.0.113.9'), '203.0.113.9');
    assert.equal(viaProxy('6.6.6.6, 203.0.113.9, 10.1.1.1,192.168.1.1'), '203.0.113.9');
    assert.equal(viaProxy('6.6.6.6, 192.168.1.2, 10.1.1.1'), '192.168.1.2');
    assert.equal(viaProxy('6.6.6.6, fd12::1, 2001:DB8:0::7'), '2001:db8::7');
    assert.equal(viaProxy('2001:db8::7, fd12::1'), '2001:db8::7');
  });

  it('takes the outermost proxy when all are trusted', () => {
    assert.equal(viaProxy('10.9.9.9, 10.1.1.1'), '10.9.9.9');
  });

  it('stops at a malformed hop, with the last good address', () => {
    for (const bad of [
      'unknown',
      '_hidden',
      '',
      'evil"',
      '1.2.3',
      '1.2.3.4.5',
      '999.1.1.1',
      '::1%eth0',
      '<script>',
    ]) {
      assert.equal(viaProxy(`6.6.6.6, ${bad}, 10.1.1.1`), '10.1.1.1', bad);
      assert.equal(viaProxy(bad), '10.0.0.1', bad);
    }
  });

  it('walks 32 hops and no more', () => {
    const hops = (count: number) => `6.6.6.6${', 10.1.1.1'.repeat(count)}`;
    assert.equal(viaProxy(hops(31)), '6.6.6.6');
    assert.equal(viaProxy(hops(32)), '10.1.1.1');
  });

  it('reads Forwarded (RFC 7239)', () => {
    assert.equal(viaForwarded('for=203.0.113.9'), '203.0.113.9');
    assert.equal(
      viaForwarded('for=6.6.6.6, For="[2001:db8:cafe::17]:4711";proto=https;by=10.0.0.1, for=10.1.1.1'),
      '2001:db8:cafe::17',
    );
    assert.equal(viaForwarded('proto=http;for="203.0.113.9:80"'), '203.0.113.9');
    assert.equal(viaForwarded('for=6.6.6.6, for=unknown, for=10.1.1.1'), '10.1.1.1');
    assert.equal(viaForwarded('for=6.6.6.6, proto=https'), '10.0.0.1');
    assert.equal(viaForwarded('for=6.6.6.6;for=7.7.7.7'), '10.0.0.1');
  });

  it('is not led astray by a quote that the client left open', () => {
    assert.equal(viaForwarded('for="6.6.6.6, for=203.0.113.9'), '203.0.113.9');
    assert.equal(viaForwarded('for="a, for=6.6.6.6, for="203.0.113.9"'), '203.0.113.9');
    assert.equal(viaForwarded('for=203.0.113.9;by="a'), '203.0.113.9');
  });

  it('reads the header that it is told, and no other', () => {
    const headers = {
      forwarded: 'for=192.0.2.1',
      'x-forwarded-for': '192.0.2.2',
      'cf-connecting-ip': '192.0.2.3',
      'x-real-ip': '192.0.2.4',
    };
    const cases: [string | undefined, keyof typeof headers][] = [
      [undefined, 'x-forwarded-for'],
      ['x-forwarded-for', 'x-forwarded-for'],
      ['Forwarded', 'forwarded'],
      ['CF-Connecting-IP', 'cf-connecting-ip'],
      ['x-real-ip', 'x-real-ip'],
    ];
    for (const [forwardedHeader, name] of cases) {
      const options = { ...trusting, forwardedHeader };
      const { [name]: own, ...others } = headers;
      assert.equal(clientOf(options, '10.0.0.1', headers), own.replace('for=', ''), name);
      assert.equal(clientOf(options, '10.0.0.1', others), '10.0.0.1', `without ${name}`);
      assert.equal(
        clientOf(options, '10.0.0.1', { ...headers, [name]: 'hidden' }),
        '10.0.0.1',
        `bad ${name}`,
      );
    }
  });

  it('says once which header the proxies seem to write, where it is not the one that is read', () => {
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (text: string) => void lines.push(text) };
    useLogger(logger);
    const read = clientReader({ ...trusting });
    for (const peer of ['203.0.113.9', '10.0.0.1', '10.0.0.1'])
      assert.equal(read(createScope({}, { forwarded: 'for=192.0.2.1' }, peer)), peer);
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] as string,
      /has the header forwarded and no x-forwarded-for.*svc\.security\.forwarded-header: forwarded$/,
    );
  });

  it('trusts what came through a Unix domain socket when told to, and no socket that only lost its address', () => {
    const headers = { 'x-forwarded-for': '203.0.113.9' };
    const unix = { ...trusting, trustedProxies: ['unix'] };
    const through = (options: ContextOptions, isThroughPipe: boolean) =>
      clientReader(options)(createScope({}, headers, undefined, isThroughPipe));
    assert.equal(through(trusting, true), null);
    assert.equal(through(unix, true), '203.0.113.9');
    assert.equal(through(unix, false), null);
    assert.equal(clientOf(unix, '10.0.0.1', headers), '10.0.0.1');
  });

  it('knows no client outside a request', () => {
    assert.equal(clientReader(trusting)(createScope(null, null, undefined)), null);
    const unix = { ...trusting, trustedProxies: ['unix'] };
    assert.equal(clientReader(unix)(createScope(null, null, undefined)), null);
  });
});

describe('trusted proxies', () => {
  it('are addresses and ranges of both families, at their exact bounds', () => {
    const client = '198.51.100.7';
    const trusts = (trustedProxies: string[], peer: string): boolean => {
      const read = clientOf({ useForwardedHeaders: true, trustedProxies }, peer, {
        'x-forwarded-for': client,
      });
      assert.ok(read === client || read === peer, `${read}`);
      return read === client;
    };
    const proxies = ['10.0.0.0/30', '2001:db8::/127', '192.0.2.1', '::1', '0.0.0.0/32'];
    for (const address of ['10.0.0.0', '10.0.0.3', '2001:db8::1', '192.0.2.1', '::1', '0.0.0.0']) {
      assert.equal(trusts(proxies, address), true, address);
    }
    for (const address of ['10.0.0.4', '9.255.255.255', '2001:db8::2', '192.0.2.2', '::2']) {
      assert.equal(trusts(proxies, address), false, address);
    }
    assert.equal(trusts(['0.0.0.0/0'], '8.8.8.8'), true);
    assert.equal(trusts(['::/0'], '2001:db8::1'), true);
    assert.doesNotThrow(() => trusts(['::1/128'], '::1'));
  });

  it('are refused with the name of an entry that is none', () => {
    const bad = [
      '',
      'proxy.local',
      '10.0.0.0/33',
      '::1/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0.0/-1',
      'fe80::1%eth0',
      '1.2.3',
    ];
    for (const entry of bad) {
      assert.throws(() => createOriginReader({ useForwardedHeaders: true, trustedProxies: [entry] }), {
        code: 'SVC_CONTEXT_BAD_TRUSTED_PROXY',
        message: `trusted proxy "${entry}" is not an IP address, a range such as 10.0.0.0/8, or unix`,
      });
    }
  });
});

describe('addresses', () => {
  it('come without port, brackets and mapping, in their shortest spelling', () => {
    // Behind a malformed hop, the proxy counts as the client.
    const proxy = '10.0.0.1';
    const hops: [string, string][] = [
      ['1.2.3.4', '1.2.3.4'],
      ['1.2.3.4:65535', '1.2.3.4'],
      ['[2001:DB8:0:0::1]:80', '2001:db8::1'],
      ['[::1]', '::1'],
      ['::ffff:1.2.3.4', '1.2.3.4'],
      ['::ffff:102:304', '1.2.3.4'],
      ['[1.2.3.4]', '1.2.3.4'],
      ['2001:db8::1:80', '2001:db8::1:80'],
      ['1.2.3.4:', proxy],
      ['1.2.3.4:port', proxy],
      ['[::1', proxy],
      ['::1]', proxy],
      ['fe80::1%1', proxy],
      ['', proxy],
    ];
    for (const [hop, address] of hops) assert.equal(viaProxy(hop), address, hop);
    assert.equal(clientOf({}, '::ffff:x'), '::ffff:x');
  });

  it('are found in headers from the last to the first, up to one that is empty or missing', () => {
    /** Each hop is the client until it is trusted too. */
    const hopsOf = (forwardedHeader: string, header: string): (string | null)[] => {
      const trustedProxies = ['10.0.0.1'];
      for (;;) {
        const options = { useForwardedHeaders: true, forwardedHeader, trustedProxies };
        const client = clientOf(options, '10.0.0.1', { [forwardedHeader]: header });
        if (client === null || trustedProxies.includes(client)) return trustedProxies.slice(1);
        trustedProxies.push(client);
      }
    };
    const xff = (header: string) => hopsOf('x-forwarded-for', header);
    assert.deepEqual(xff('1.1.1.1, 2.2.2.2 ,3.3.3.3'), ['3.3.3.3', '2.2.2.2', '1.1.1.1']);
    assert.deepEqual(xff(''), []);
    assert.deepEqual(xff(',1.1.1.1'), ['1.1.1.1']);
    assert.deepEqual(xff(',1.1.1.1,'), []);
    const forwarded = (header: string) => hopsOf('forwarded', header);
    assert.deepEqual(forwarded('for=1.1.1.1, FOR = "2.2.2.2" ; by=x,for=3.3.3.3;by="q,r"'), [
      '3.3.3.3',
      '2.2.2.2',
      '1.1.1.1',
    ]);
    assert.deepEqual(forwarded('for=1.1.1.1,by=y,for=3.3.3.3'), ['3.3.3.3']);
    assert.deepEqual(forwarded('for=1.1.1.1,for="q,for=3.3.3.3;by=r"'), []);
    assert.deepEqual(forwarded(''), []);
  });
});
