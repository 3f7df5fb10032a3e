import assert from 'node:assert/strict';
import { loadConfig } from '../../../src/config/read/load.ts';
import { hasFormat, options } from '../../../src/config/schema/schema.ts';
import { folderWith, loadCode, removeFolders } from '../config-folder.ts';

const timer = 2_147_483_647;

// name: below the first accepted, first accepted, last accepted, above it, and what is said below and above.
// biome-ignore format: a row for each option.
const limits: Record<string, [number, number, number, number, string, string]> = {
  'svc.shutdown.timeout-ms': [-1, 0, timer, timer + 1, 'timeoutMs must be 0 or greater', `timeoutMs must be at most ${timer}`],
  'svc.id-generator.worker-id': [-1, 0, 1023, 1024, 'workerId must be between 0 and 1023', 'workerId must be between 0 and 1023'],
  'svc.broker.request-timeout-ms': [0, 1, timer, timer + 1, 'requestTimeoutMs must be positive', `requestTimeoutMs must be at most ${timer}`],
  'svc.broker.connection-timeout-ms': [0, 1, timer, timer + 1, 'connectionTimeoutMs must be positive', `connectionTimeoutMs must be at most ${timer}`],
  'svc.broker.max-wait-ms': [0, 1, timer, timer + 1, 'maxWaitMs must be positive', `maxWaitMs must be at most ${timer}`],
  'svc.broker.max-in-flight': [0, 1, 1000, 1001, 'maxInFlight must be at least 1', 'maxInFlight must be at most 1000'],
  'svc.broker.buffer.max-events': [0, 1, 1_000_000, 1_000_001, 'maxEvents must be at least 1', 'maxEvents must be at most 1000000'],
  'svc.broker.buffer.max-bytes': [1_048_575, 1_048_576, 1_073_741_824, 1_073_741_825, 'maxBytes must be at least 1048576', 'maxBytes must be at most 1073741824'],
  'svc.broker.backup.max-files': [-1, 0, 1_000_000, 1_000_001, 'maxFiles must be 0 or greater', 'maxFiles must be at most 1000000'],
  'svc.broker.backup.max-bytes': [0, 1, 1024 ** 5, 1024 ** 5 + 1, 'maxBytes must be at least 1', 'maxBytes must be at most 1125899906842624'],
  'svc.broker.backup.drain.rate': [0, 1, 1_000_000, 1_000_001, 'rate must be at least 1', 'rate must be at most 1000000'],
  'svc.broker.batch.max-events': [0, 1, 5_000, 5_001, 'maxEvents must be at least 1', 'maxEvents must be at most 5000'],
  'svc.broker.batch.max-bytes': [1_023, 1_024, 104_857_600, 104_857_601, 'maxBytes must be at least 1024', 'maxBytes must be at most 104857600'],
  'svc.broker.batch.linger-ms': [-1, 0, 60_000, 60_001, 'lingerMs must be 0 or greater', 'lingerMs must be at most 60000'],
  'svc.broker.delivery-timeout-ms': [0, 1, timer, timer + 1, 'deliveryTimeoutMs must be positive', `deliveryTimeoutMs must be at most ${timer}`],
  'svc.pii.kms.aws.dek-cache-ttl-ms': [999, 1000, 86_400_000, 86_400_001, 'dekCacheTtlMs must be at least 1000', 'dekCacheTtlMs must be at most 86400000'],
  'svc.pii.kms.aws.dek-cache-max-size': [0, 1, 10_000, 10_001, 'dekCacheMaxSize must be at least 1', 'dekCacheMaxSize must be at most 10000'],
  'svc.pii.kms.vault.dek-cache-ttl-ms': [999, 1000, 86_400_000, 86_400_001, 'dekCacheTtlMs must be at least 1000', 'dekCacheTtlMs must be at most 86400000'],
  'svc.pii.kms.vault.dek-cache-max-size': [0, 1, 10_000, 10_001, 'dekCacheMaxSize must be at least 1', 'dekCacheMaxSize must be at most 10000'],
  'management.server.port': [-2, -1, 65_535, 65_536, 'port must be at least -1', 'port must be at most 65535'],
  'svc.retry.max-attempts': [0, 1, 100, 101, 'maxAttempts must be at least 1', 'maxAttempts must be at most 100'],
  'svc.retry.initial-interval': [0, 1, timer, timer + 1, 'initialInterval must be positive', `initialInterval must be at most ${timer}`],
  'svc.retry.multiplier': [0.99, 1, 100, 100.01, 'multiplier must be at least 1', 'multiplier must be at most 100'],
  'svc.retry.max-interval': [0, 1, timer, timer + 1, 'maxInterval must be positive', `maxInterval must be at most ${timer}`],
  'svc.outbox.poll-interval-ms': [0, 1, timer, timer + 1, 'pollIntervalMs must be positive', `pollIntervalMs must be at most ${timer}`],
  'svc.outbox.batch-size': [0, 1, 1000, 1001, 'batchSize must be at least 1', 'batchSize must be at most 1000'],
  'svc.outbox.max-retries': [0, 1, 1000, 1001, 'maxRetries must be at least 1', 'maxRetries must be at most 1000'],
  'svc.outbox.send-timeout-seconds': [0, 1, 86_400, 86_401, 'sendTimeoutSeconds must be positive', 'sendTimeoutSeconds must be at most 86400'],
  'svc.outbox.retention-days': [-1, 0, 36_500, 36_501, 'retentionDays must be 0 or greater', 'retentionDays must be at most 36500'],
  'svc.outbox.failed-retention-days': [0, 1, 36_500, 36_501, 'failedRetentionDays must be at least 1', 'failedRetentionDays must be at most 36500'],
};

function problemsOf(name: string, value: unknown): { message: string; got: string | undefined }[] {
  const loaded = loadConfig({
    cwd: folderWith(),
    env: {},
    code: { 'svc.broker.topic': 'orders', [name]: value },
  });
  return loaded.problems.map(({ message, got }) => ({ message, got }));
}

describe('limits of configuration values', () => {
  after(removeFolders);

  it('has a row here for every option with a bound', () => {
    const bounded = options.filter((option) => option.min !== undefined || option.max !== undefined);
    assert.deepEqual(bounded.map((option) => option.name).sort(), Object.keys(limits).sort());
  });

  for (const [name, [below, first, last, above, saysBelow, saysAbove]] of Object.entries(limits)) {
    it(`${name}: ${first} to ${last}`, () => {
      assert.deepEqual(problemsOf(name, first), []);
      assert.deepEqual(problemsOf(name, last), []);
      assert.deepEqual(problemsOf(name, below), [{ message: saysBelow, got: String(below) }]);
      assert.deepEqual(problemsOf(name, above), [{ message: saysAbove, got: String(above) }]);
    });
  }

  it('takes no fractions, NaN or infinity where an integer is asked for', () => {
    const message = 'must be an integer';
    assert.deepEqual(problemsOf('svc.broker.max-in-flight', 1.5), [{ message, got: '1.5 (number)' }]);
    assert.deepEqual(problemsOf('svc.broker.max-in-flight', Number.NaN), [{ message, got: 'NaN (number)' }]);
    assert.deepEqual(problemsOf('svc.broker.max-in-flight', Number.POSITIVE_INFINITY), [
      { message, got: 'Infinity (number)' },
    ]);
    assert.deepEqual(problemsOf('svc.retry.multiplier', Number.POSITIVE_INFINITY), [
      { message: 'must be a number', got: 'Infinity (number)' },
    ]);
    assert.deepEqual(problemsOf('svc.retry.multiplier', 1.5), []);
  });
});

type FormatName = Parameters<typeof hasFormat>[0];

const forms: Record<FormatName, { good: string[]; bad: string[] }> = {
  'name-and-value': {
    good: ['a=b', 'logicalCluster=lkc-1', 'a=b=c'],
    bad: ['a', 'a=', '=b', 'a b=c', 'a=b c', 'ä=b'],
  },
  text: { good: ['a', ' a'], bad: ['', ' ', '\n'] },
  topic: {
    good: ['a', 'orders.events.v1', 'A_b-c.9', '...', 'a'.repeat(249)],
    bad: ['', '.', '..', 'a'.repeat(250), 'a b', 'a/b', 'ä', 'a\n'],
  },
  'host-and-port': {
    good: ['localhost:9092', 'a.b-c:1', 'a:65535', '[::1]:9092'],
    bad: [
      'localhost',
      'a:0',
      'a:65536',
      ':9092',
      'a:',
      'PLAINTEXT://a:9092',
      'user:pw@a:9092',
      '::1:9092',
      'a :1',
    ],
  },
  path: { good: ['./a', '/a b', 'C:\\a'], bad: ['', ' ', 'a\0b'] },
  'header-name': { good: ['x-request-id', 'X_a'], bad: ['', 'a b', 'a:', 'ä'] },
  'actor-source': {
    good: ['header:x-user-id', 'baggage:user.id', 'request:user.id'],
    bad: ['', 'x-user-id', 'header:', 'header:a b', 'cookie:a', 'baggage:', 'request: a'],
  },
  'trusted-proxy': {
    good: ['unix', '10.0.0.1', '10.0.0.0/8', '0.0.0.0/0', '10.0.0.0/32', '::1', 'fd00::/8', '::/128'],
    bad: [
      '',
      'Unix',
      'unix/1',
      '10.0.0',
      '10.0.0.0/33',
      '::/129',
      'proxy',
      '10.0.0.0/8/8',
      '10.0.0.0/',
      '10.0.0.0/-1',
    ],
  },
  'listen-address': {
    good: ['127.0.0.1', '0.0.0.0', '::', 'localhost', 'db-1.internal'],
    bad: ['', '127.0.0.1:17820', 'localhost:1', '1.2.3', '256.0.0.1', 'http://a'],
  },
  token: { good: ['a', '~!'], bad: ['', 'a b', 'ä', 'a\n'] },
  'management-token': {
    good: ['a'.repeat(16), `~${'!'.repeat(500)}`],
    bad: ['', 'a'.repeat(15), `${'a'.repeat(16)} `, 'ä'.repeat(16), `${'a'.repeat(16)}\n`],
  },
  'datasource-url': {
    good: [
      'postgres://app:p%40ss@db:5432/orders?sslmode=require',
      'postgresql:///orders?host=/run/postgresql',
      'mysql://db/orders',
      'mariadb://db:3306/orders',
      'sqlite:./data/app.db',
      'sqlite:app.db',
      'sqlite:/var/lib/app data.db',
      'sqlite:///var/lib/app.db',
    ],
    bad: [
      '',
      'db:5432',
      'postgres:orders',
      'Postgres://db/orders',
      'postgres://',
      'postgres://app:p@ss word@db/orders',
      'postgres://app:p/ss@db/orders',
      'sqlserver://db/orders',
      'prisma+postgres://db/orders',
      'file:./app.db',
      'sqlite:',
      'sqlite: ',
      'sqlite://app.db',
      'sqlite::memory:',
      'sqlite:a\n',
    ],
  },
  table: {
    good: [
      'svc_outbox_events',
      'app.svc_outbox_events',
      '_a',
      'A1',
      'a'.repeat(63),
      `${'a'.repeat(63)}.${'b'.repeat(63)}`,
    ],
    bad: [
      '',
      '1a',
      'a.1b',
      'a-b',
      'a b',
      'a.b.c',
      '.a',
      'a.',
      '"a"',
      'a;',
      'ä',
      'a'.repeat(64),
      `a.${'b'.repeat(64)}`,
      `${'a'.repeat(64)}.b`,
      'a\n',
    ],
  },
  'uri-reference': {
    good: [
      'https://example.com/orders',
      'https://user@[::1]:8080/a?b=c#d',
      'urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66',
      'mailto:a@b.c',
      '/orders',
      '/@acme/orders',
      '1-555-123-4567',
      'a%20b',
      './a:b',
      '#a',
    ],
    bad: ['', ' ', 'a b', '/a b', 'ä', '/%2', '1a:b', ':a', 'a#b#c', 'a\\b', '<a>', '/a[0]', 'a\n'],
  },
  url: { good: ['http://a', 'https://a:1/b?c'], bad: ['', 'a', 'ftp://a', 'http://', 'http://a b'] },
};

describe('forms of configuration values', () => {
  after(removeFolders);

  for (const [name, { good, bad }] of Object.entries(forms)) {
    it(name, () => {
      for (const text of good) assert.equal(hasFormat(name as FormatName, text), true, JSON.stringify(text));
      for (const text of bad) assert.equal(hasFormat(name as FormatName, text), false, JSON.stringify(text));
    });
  }

  it('is checked for each item of a list, and says which item', () => {
    const { problems } = loadCode({ broker: { bootstrapServers: ['a:1', 'b'] } });
    assert.equal(
      problems[0]?.message,
      'item 2 must be host:port with a port from 1 to 65535, without a protocol',
    );
  });
});
