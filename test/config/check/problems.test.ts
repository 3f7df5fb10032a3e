import assert from 'node:assert/strict';
import { formatProblem } from '../../../src/config/check/check.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { isLoopback } from '../../../src/ground/addresses.ts';
import { folderWith, lines, loadCode, loadYaml, removeFolders } from '../config-folder.ts';

function inSvc(text: string): string[] {
  return lines(loadYaml(`svc.broker.topic: orders\nsvc:\n  ${text}\n`).problems);
}

const topic = (got: string) =>
  'must be a topic name that Kafka accepts: 1 to 249 letters, digits, ".", "_" or "-", and neither "." nor "..", ' +
  `got ${got} (svc.config.yaml:1).`;

describe('problems of the configuration', () => {
  afterEach(removeFolders);

  it('are reported all at once, each on its line of the file', () => {
    const loaded = loadYaml(`
svc:
  broker:
    topic: "a b"
    async-mode: "yes"
    max-in-flight: abc
  id-generator: { worker-id: 1024 }
  unknown: 1
management:
  server:
    port: 65536
`);
    assert.equal(
      loaded.problems.map(formatProblem).join('\n'),
      [
        'svc.?: is an unknown name (svc.config.yaml:8). docs/configuration.md lists all names.',
        'svc.id-generator.worker-id: workerId must be between 0 and 1023, got 1024 (svc.config.yaml:7). Allowed: 0 to 1023.',
        `svc.broker.topic: ${topic('a string').replace(':1)', ':4)')}`,
        'svc.broker.async-mode: must be true or false, got a string (svc.config.yaml:5).',
        'svc.broker.max-in-flight: must be an integer, got a string (svc.config.yaml:6). Allowed: 1 to 1000 sends, default 8.',
        'management.server.port: port must be at most 65535, got 65536 (svc.config.yaml:11). Allowed: -1 to 65535.',
      ].join('\n'),
    );
  });

  it('are on their line in JSON as well', () => {
    const text = '{\n  "svc": {\n    "broker": {\n      "topic": "a",\n      "asyncMode": 1\n    }\n  }\n}';
    const { problems } = loadConfig({ cwd: folderWith({ 'svc.config.json': text }), env: {} });
    assert.equal(
      lines(problems)[0],
      'svc.broker.async-mode: must be true or false, got 1 (number) (svc.config.json:5).',
    );
  });

  for (const [line, name] of [
    [
      '  targets:\n    - module: ./a.js\n      function: f\n      eventType: A\n      payload: #result.id',
      'targets[0].payload',
    ],
    [
      '  targets:\n    - module: ./a.js\n      function: f\n      eventType: A\n      key: #result.id',
      'targets[0].key',
    ],
    ['  targets:\n    - { module: ./a.js, function: f, eventType: A, when: }', 'targets[0].when'],
    ['  pii: { crypto: { salt: } }', 'pii.crypto.salt'],
    ['  pii:\n    fields: # none', 'pii.fields'],
    ['  shutdown: { timeout-ms: ~ }', 'shutdown.timeout-ms'],
  ] as const)
    it(`an empty value is said, not passed over: ${name}`, () => {
      const { problems, targetProblems } = loadYaml(`svc:\n  broker: { topic: t }\n${line}`);
      const all = [...problems, ...targetProblems.flatMap((one) => one.problems)];
      const [said = '', ...more] = lines(all);
      assert.deepEqual(more, []);
      assert.ok(said.includes(`svc.${name}: is empty: YAML reads text after # as a comment`), said);
      assert.match(said, /put it in quotes/i);
    });

  it('Kafka topic is required', () => {
    const fix = 'Set svc.broker.topic in the file, or the environment variable SVC_BROKER_TOPIC.';
    assert.deepEqual(lines(loadYaml('svc: { enabled: true }').problems), [
      `svc.broker.topic: Kafka topic is required. ${fix}`,
    ]);
    assert.deepEqual(lines(loadYaml('svc: { broker: { topic: } }').problems), [
      `svc.broker.topic: Kafka topic is required. ${fix}`,
    ]);
    assert.equal(loadYaml('svc: { broker: { topic: " " } }').problems[0]?.message, 'Kafka topic is required');
  });

  it('a topic that Kafka refuses', () => {
    for (const bad of ['..', 'a/b', 'a'.repeat(250)]) {
      const loaded = loadYaml(`svc: { broker: { topic: "${bad}" } }`);
      assert.deepEqual(lines(loaded.problems), [`svc.broker.topic: ${topic('a string')}`]);
      assert.equal(loaded.config.broker.topic, '');
    }
  });

  it('wrong types', () => {
    assert.deepEqual(inSvc('service: { name: 7, version: 1.4 }'), [
      'svc.service.name: must be a string, got 7 (number) (svc.config.yaml:3). Put it in quotes.',
      'svc.service.version: must be a string, got 1.4 (number) (svc.config.yaml:3). Put it in quotes.',
    ]);
    assert.deepEqual(inSvc('broker: { async-mode: [], bootstrap-servers: 7, client-id: {}, client: 1 }'), [
      'svc.broker.client: must be one of kafkajs, platformatic, file, memory, or a name that registerBroker() has, got 1 (number) (svc.config.yaml:3).',
      'svc.broker.bootstrap-servers: must be a list, got 7 (number) (svc.config.yaml:3).',
      'svc.broker.client-id: must be a string, got an object (svc.config.yaml:3).',
      'svc.broker.async-mode: must be true or false, got a list (svc.config.yaml:3).',
    ]);
    assert.deepEqual(inSvc('context: { actor: { user-id: 1 }, tags: { baggage: [1] } }'), [
      'svc.context.actor.user-id: must be a string or a function, got 1 (number) (svc.config.yaml:3). Put it in quotes.',
      'svc.context.tags.baggage: item 1 must be a string, got 1 (number) (svc.config.yaml:3). Put it in quotes.',
    ]);
  });

  it('a value in the place of a section', () => {
    assert.deepEqual(inSvc('broker: orders'), [
      'svc.broker: must be a section, got a string (svc.config.yaml:3). It has names such as svc.broker.client, svc.broker.bootstrap-servers, svc.broker.topic.',
    ]);
    assert.deepEqual(inSvc('broker:'), []);
  });

  it('unknown names, with the nearest right one', () => {
    const nearest: Record<string, string> = {
      'brokr: { a: 1 }': 'svc.brokr|svc.broker',
      'topic: a': 'svc.topic|svc.broker.topic',
      'broker: { bootstrap_servers: a }': 'svc.broker.bootstrap_servers|svc.broker.bootstrap-servers',
      'broker: { async: true }': 'svc.broker.async|svc.broker.async-mode',
      'broker: { tpoic: a }': 'svc.broker.tpoic|svc.broker.topic',
      'target: []': 'svc.target|svc.targets',
      'workerId: 1': 'svc.workerId|svc.id-generator.worker-id',
    };
    for (const [text, pair] of Object.entries(nearest)) {
      const [name, meant] = pair.split('|');
      assert.deepEqual(inSvc(text), [
        `${name}: is an unknown name (svc.config.yaml:3). Did you mean ${meant}?`,
      ]);
    }
    const atTop = loadYaml('svc.broker.topic: a\nbroker: {}\nsvc.brokr.topik: 1\n').problems;
    assert.deepEqual(lines(atTop), [
      'broker: is an unknown name (svc.config.yaml:2). Did you mean svc.broker?',
      'svc.brokr.topik: is an unknown name (svc.config.yaml:3). Did you mean svc.broker.topic?',
    ]);
  });

  it('one name given twice', () => {
    assert.deepEqual(inSvc('broker: { async-mode: true, asyncMode: true }'), [
      'svc.broker.async-mode: is given twice, as svc.broker.async-mode and as svc.broker.asyncMode (svc.config.yaml:3). Keep one of them.',
    ]);
    assert.deepEqual(inSvc('broker: { topic: b }'), [
      'svc.broker.topic: is given twice, as svc.broker.topic and as svc.broker.topic (svc.config.yaml:3). Keep one of them.',
    ]);
  });

  it('clients', () => {
    assert.deepEqual(inSvc('broker: { client: platformatic }'), [
      'svc.broker.bootstrap-servers: bootstrapServers is required when client is platformatic (svc.config.yaml:3). List brokers as host:port, or set SVC_BROKER_BOOTSTRAP_SERVERS or KAFKA_BROKERS.',
    ]);
    assert.deepEqual(inSvc('broker: { client: kafka }'), [
      'svc.broker.client: must be one of kafkajs, platformatic, file, memory, or a name that registerBroker() has, got a string (svc.config.yaml:3). Did you mean kafkajs?',
    ]);
    assert.deepEqual(inSvc('broker: { client: kafkajs }'), [
      'svc.broker.bootstrap-servers: bootstrapServers is required when client is kafkajs (svc.config.yaml:3). List brokers as host:port, or set SVC_BROKER_BOOTSTRAP_SERVERS or KAFKA_BROKERS.',
    ]);
    assert.deepEqual(inSvc('broker: { client: kafkajs, bootstrap-servers: [a] }'), [
      'svc.broker.bootstrap-servers: item 1 must be host:port with a port from 1 to 65535, without a protocol, got a string (svc.config.yaml:3).',
    ]);
  });

  it('an address that holds a password keeps it', () => {
    const [line = ''] = inSvc('broker: { bootstrap-servers: "kafka://me:hunter2@a:1" }');
    assert.match(line, /got a string/);
  });

  it('signing in to the brokers', () => {
    assert.deepEqual(inSvc('broker: { sasl: { username: me } }'), [
      'svc.broker.sasl.mechanism: is required to sign in to the brokers. Set svc.broker.sasl.mechanism in the file, or the environment variable SVC_BROKER_SASL_MECHANISM.',
      'svc.broker.sasl.password: is required to sign in to the brokers. Set svc.broker.sasl.password in the file, or the environment variable SVC_BROKER_SASL_PASSWORD.',
    ]);
    const plain = loadCode({ broker: { sasl: { mechanism: 'PLAIN', username: 'me', password: 'hunter2' } } });
    assert.deepEqual(plain.problems, []);
    assert.deepEqual(lines(plain.warnings), [
      'svc.broker.sasl.mechanism: sends the password unencrypted, because svc.broker.tls.enabled is false (code). Set svc.broker.tls.enabled: true.',
    ]);
    const scram = loadCode({
      broker: { sasl: { mechanism: 'scram-sha-256', username: 'me', password: 'x' } },
    });
    assert.deepEqual(lines(scram.warnings), [
      'svc.broker.sasl.mechanism: lets anyone on the network guess passwords and read the events, because svc.broker.tls.enabled is false (code). Set svc.broker.tls.enabled: true.',
    ]);
    for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer']) {
      const own =
        mechanism === 'oauthbearer' ? { oauthbearer: { token: 'x' } } : { username: 'me', password: 'x' };
      const sasl = { mechanism, ...own };
      assert.equal(loadCode({ broker: { sasl } }).warnings.length, 1, mechanism);
      assert.deepEqual(loadCode({ broker: { sasl, tls: { enabled: true } } }).warnings, [], mechanism);
    }
  });

  it('certificates', () => {
    const cwd = folderWith({
      'svc.config.yaml':
        'svc.broker: { topic: a, tls: { enabled: true, ca-file: ca.pem, cert-file: c.pem } }',
      'ca.pem': '',
    });
    assert.deepEqual(lines(loadConfig({ cwd, env: {} }).problems), [
      'svc.broker.tls.key-file: is required: set certificate and key together. Set svc.broker.tls.key-file in the file, or the environment variable SVC_BROKER_TLS_KEY_FILE.',
      'svc.broker.tls.cert-file: names a file that cannot be read (ENOENT) (svc.config.yaml:1). Correct the path or its permissions.',
    ]);
    assert.deepEqual(lines(loadCode({ broker: { tls: { serverName: 'a' } } }).warnings), [
      'svc.broker.tls.server-name: has no effect while svc.broker.tls.enabled is false (code). Set svc.broker.tls.enabled: true.',
    ]);
  });

  it('proxies that nobody named', () => {
    assert.deepEqual(lines(loadCode({ security: { useForwardedHeaders: true } }).warnings), [
      'svc.security.use-forwarded-headers: has no effect: svc.security.trusted-proxies is empty (code). List the addresses of your proxies.',
    ]);
    const security = { useForwardedHeaders: true, trustedProxies: ['10.0.0.0/8'] };
    assert.deepEqual(loadCode({ security }).warnings, []);
  });

  it('a management server that others can reach, without a token', () => {
    const loaded = loadCode({}, { server: { address: '0.0.0.0' } });
    assert.deepEqual(lines(loaded.problems), [
      'management.server.token: is required when management.server.address is not a loopback address (code). Set the environment variable MANAGEMENT_SERVER_TOKEN, or listen on 127.0.0.1.',
    ]);
    assert.deepEqual(loadCode({}, { server: { address: '0.0.0.0', token: 'x'.repeat(16) } }).problems, []);
    const behind = { publicUrl: 'https://ops.example.com/orders' };
    assert.deepEqual(lines(loadCode({}, { server: behind }).problems), [
      'management.server.token: is required when management.server.public-url is set: behind the proxy, every client looks local (code). Set the environment variable MANAGEMENT_SERVER_TOKEN, or remove the proxy.',
    ]);
    assert.deepEqual(loadCode({}, { server: { ...behind, token: 'x'.repeat(16) } }).problems, []);
    assert.deepEqual(lines(loadCode({}, { server: { token: 'x'.repeat(15) } }).problems), [
      'management.server.token: must be 16 or more visible ASCII characters without spaces, because shorter ones can be guessed (code).',
    ]);
    for (const address of ['127.0.0.1', '127.255.255.255', '::1', 'LocalHost', '::ffff:127.0.0.1']) {
      assert.equal(isLoopback(address), true, address);
    }
    for (const address of ['126.255.255.255', '128.0.0.0', '0.0.0.0', '::', '::2', 'localhost.example']) {
      assert.equal(isLoopback(address), false, address);
    }
  });

  it('endpoints', () => {
    const include = (value: unknown) =>
      loadCode({}, { endpoints: { web: { exposure: { include: value } } } });
    assert.deepEqual(lines(include(['health', 'metric']).problems), [
      'management.endpoints.web.exposure.include: item 2 must be one of health, info, metrics, prometheus, svc-metrics, svc-outbox, svc-console, *, got a string (code). Did you mean metrics?',
    ]);
    assert.deepEqual(include(['health', 'svc-metrics']).warnings, []);
    assert.deepEqual(loadCode({}).warnings, []);
    assert.deepEqual(include([]).config.management.endpoints.web.exposure.include, []);
    assert.deepEqual(include('health,*').config.management.endpoints.web.exposure.include, ['health', '*']);
    assert.deepEqual(inSvc('log: { level: verbose }'), [
      'svc.log.level: must be one of debug, info, warn, error, off, got a string (svc.config.yaml:3).',
    ]);
  });

  it('tiers: dead letters need a topic of their own, S3 a bucket', () => {
    const topic = loadCode({}).config.broker.topic;
    const dlq = (dlqTopic: string) => loadCode({ broker: { dlqTopic } });
    assert.deepEqual(lines(dlq(topic).problems), [
      'svc.broker.dlq-topic: dlqTopic must differ from topic: dead letters would be read as events (code). Name a separate topic, such as orders.events.dlq.v1.',
    ]);
    assert.deepEqual(dlq('orders.dlq').problems, []);
    const target = { module: './a.js', function: 'f', topic: 'orders.dlq' };
    assert.deepEqual(lines(loadCode({ broker: { dlqTopic: 'orders.dlq' }, targets: [target] }).problems), [
      'svc.broker.dlq-topic: dlqTopic must differ from topic of target a.js#f: dead letters would be read as events (code). Name a separate topic, such as orders.events.dlq.v1.',
    ]);
    assert.equal(loadCode({ broker: { dlqTopic: 'a b' } }).problems.length, 1);
    assert.equal(
      loadCode({ broker: { backup: { s3Enabled: true } } }).problems[0]?.message,
      's3Bucket is required when s3Enabled=true',
    );
    assert.deepEqual(loadCode({ broker: { backup: { s3Enabled: true, s3Bucket: 'b' } } }).problems, []);
  });

  it('backup: an order is kept in the journal, not among files', () => {
    const backup = (format: string, order?: string) =>
      loadCode({ broker: { backup: { format, drain: { order } } } }).problems;
    for (const format of ['event', 'record']) {
      assert.deepEqual([...backup(format), ...backup(format, 'none')], []);
      assert.deepEqual(lines(backup(format, 'key')), [
        `svc.broker.backup.drain.order: key needs the journal, but svc.broker.backup.format is ${format}, and files keep no order (code). Remove it, or set svc.broker.backup.format: journal.`,
      ]);
    }
    assert.deepEqual([...backup('journal', 'key'), ...backup('journal', 'none')], []);
    assert.deepEqual(lines(backup('files', 'key')).length, 1);
  });

  describe('svc.serde', () => {
    const registry = { schemaRegistryUrl: 'http://registry:8081' };
    const broker = { bootstrapServers: ['k:9092'] };
    const ofAvro = (more: object) => loadCode({ broker, serde: { type: 'AVRO', ...registry, ...more } });

    it('needs the address of a registry for AVRO', () => {
      assert.deepEqual(lines(loadCode({ broker, serde: { type: 'AVRO' } }).problems), [
        'svc.serde.schema-registry-url: is required when svc.serde.type is AVRO (code). Set svc.serde.schema-registry-url, such as http://localhost:8081.',
      ]);
      assert.deepEqual(ofAvro({}).problems, []);
      assert.equal(ofAvro({ schemaRegistryUrl: 'registry' }).problems.length, 2);
      for (const files of [{}, { broker: { ...broker, client: 'file' } }])
        assert.deepEqual(lines(loadCode({ ...files, serde: { type: 'AVRO', ...registry } }).problems), [
          'svc.serde.type: must be JSON if events go to files (svc.broker.client: file) (code). Send them to Kafka (svc.broker.bootstrap-servers), or set the environment variable SVC_SERDE_TYPE=JSON.',
        ]);
    });

    it('warns of a registry that JSON does not ask', () => {
      const loaded = loadCode({ serde: registry });
      assert.deepEqual(loaded.problems, []);
      assert.deepEqual(lines(loaded.warnings), [
        'svc.serde.schema-registry-url: has no effect while svc.serde.type is JSON (code). Set svc.serde.type: AVRO.',
      ]);
      const env = { SCHEMA_REGISTRY_URL: 'http://registry:8081' };
      assert.deepEqual(loadConfig({ cwd: folderWith(), env }).warnings, []);
      const own = { SVC_SERDE_SCHEMA_REGISTRY_URL: 'http://registry:8081' };
      assert.equal(loadConfig({ cwd: folderWith(), env: own }).warnings.length, 1);
    });

    it('takes one way to sign in', () => {
      const { problems } = ofAvro({ schemaRegistryUsername: 'u', schemaRegistryToken: 'hunter2' });
      assert.deepEqual(lines(problems), [
        'svc.serde.schema-registry-token: is a second way to sign in, besides schema-registry-username (code). Keep one of them.',
      ]);
    });

    it('reads its files', () => {
      const { problems } = ofAvro({
        schemaRegistryCaFile: 'no-ca.pem',
        schemas: { A: 'none.avsc', C: ['a', 'b'] },
      });
      assert.deepEqual(lines(problems), [
        'svc.serde.schema-registry-ca-file: names a file that cannot be read (ENOENT) (code). Correct the path or its permissions.',
        'svc.serde.schemas: of event type A names a file that cannot be read (ENOENT) (code). Name one file with an Avro schema (.avsc).',
        'svc.serde.schemas: of event type C names more than one file (code). Name one file with an Avro schema (.avsc).',
      ]);
    });
  });

  describe('svc.serde.envelope', () => {
    const ofEvents = (serde: object, more: object = {}) =>
      loadCode({ serde: { envelope: 'cloudevents', ...serde }, ...more });

    it('is svc for Avro', () => {
      const broker = { bootstrapServers: ['k:9092'] };
      const avro = { type: 'AVRO', schemaRegistryUrl: 'http://registry:8081' };
      assert.deepEqual(lines(ofEvents(avro, { broker }).problems), [
        'svc.serde.envelope: must be svc when svc.serde.type is AVRO: the schemas of svc hold its own envelope (code). Keep one of them: remove svc.serde.envelope, or svc.serde.type.',
      ]);
      assert.deepEqual(ofEvents({ type: 'JSON', cloudevents: { mode: 'structured' } }).problems, []);
      // Topic files take both modes.
      assert.deepEqual(ofEvents({}, { broker: { client: 'file' } }).problems, []);
    });

    it('warns of what an envelope of svc has no place for', () => {
      for (const [part, cloudevents] of [
        ['mode', { mode: 'binary', source: '/a' }],
        ['source', { source: '/a' }],
      ] as const) {
        const loaded = loadCode({ serde: { cloudevents } });
        assert.deepEqual(loaded.problems, []);
        assert.deepEqual(lines(loaded.warnings), [
          `svc.serde.cloudevents.${part}: has no effect while svc.serde.envelope is svc (code). Set svc.serde.envelope: cloudevents.`,
        ]);
      }
    });

    it('takes no target whose events cannot be CloudEvents', () => {
      const targets = [
        { module: './a.js', function: 'a', headers: { tenant: "'a'", CE_id: "'1'" } },
        { module: './a.js', function: 'b', eventType: 'A\u0007' },
        { module: './a.js', function: 'c', eventType: 'com.example.é', headers: { 'x-ce_id': "'1'" } },
      ];
      assert.deepEqual(lines(ofEvents({}, { targets }).problems), [
        'svc.targets[0].headers: has a header that begins with ce_, the prefix of CloudEvents attributes (code). Give it another name.',
        'svc.targets[1].eventType: holds a control or other character that CloudEvents attributes do not allow (code). Give it another name.',
      ]);
      assert.deepEqual(loadCode({ targets }).problems, []);
    });
  });

  it('never show a secret', () => {
    const bad = [7, true, ['hunter2'], 'hunter2\n', ' hunter2 ', { hunter2: 'hunter2' }];
    for (const value of bad) {
      const code = {
        'svc.broker.sasl.password': value,
        'management.server.token': value,
        'svc.pii.crypto.salt': value,
        'svc.pii.crypto.default-key': value,
        'svc.pii.crypto.keys': [{ id: 'a', key: value }],
        'svc.pii.kms.vault.token': value,
      };
      const { problems, warnings } = loadConfig({ cwd: folderWith(), env: {}, code });
      assert.doesNotMatch([...problems, ...warnings].map(formatProblem).join('\n'), /hunter2/);
    }
    const misspelled = loadCode({ broker: { sasl: { pasword: 'hunter2' } } });
    assert.doesNotMatch(misspelled.problems.map(formatProblem).join('\n'), /hunter2/);
  });

  it('stay on one line, whatever the names and values are', () => {
    const loaded = loadCode({ 'a\nb\u001b[31m': 1, broker: { topic: 'x\ny', clientId: ['\n'] } });
    assert.equal(
      loaded.problems.flatMap((one) => formatProblem(one).split('\n')).length,
      loaded.problems.length,
    );
    for (const line of lines(loaded.problems)) assert.doesNotMatch(line, /\p{Cc}/u);
  });
});
