import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { folderWith, lines, loadCode, loadYaml, removeFolders } from '../config-folder.ts';

describe('loadConfig', () => {
  afterEach(removeFolders);

  it('has every value of Config, with the documented defaults', () => {
    const cwd = folderWith({
      'svc.config.yaml': 'svc.broker.topic: orders',
    });
    const { config, problems, warnings } = loadConfig({ cwd, env: {} });
    const expected: Config = {
      enabled: true,
      required: false,
      aop: { enabled: true },
      service: { name: null, version: null },
      telemetry: { sdk: 'none' },
      log: { level: 'info', format: 'text' },
      broker: {
        client: 'file',
        bootstrapServers: [],
        topic: 'orders',
        clientId: 'svc',
        asyncMode: false,
        maxWaitMs: 2_000,
        acks: 'all',
        idempotence: true,
        compression: 'none',
        requestTimeoutMs: 30_000,
        connectionTimeoutMs: 3_000,
        maxInFlight: 8,
        buffer: { maxEvents: 10_000, maxBytes: 33_554_432 },
        batch: { maxEvents: 500, maxBytes: 900_000, lingerMs: 20 },
        deliveryTimeoutMs: 30_000,
        file: { path: join(cwd, 'svc-topics') },
        dlqTopic: undefined,
        dlqFormat: 'operations',
        dlqBackupPath: join(cwd, 'dlq-backup'),
        backup: {
          localEnabled: true,
          s3Enabled: false,
          s3Bucket: undefined,
          s3Prefix: 'dlq-backup',
          s3Region: undefined,
          s3Endpoint: undefined,
          format: 'journal',
          maxFiles: 10_000,
          maxBytes: 10_737_418_240,
          drain: { enabled: true, rate: 500, order: undefined },
        },
        tls: {
          enabled: false,
          caFile: undefined,
          certFile: undefined,
          keyFile: undefined,
          serverName: undefined,
        },
        sasl: {
          mechanism: undefined,
          username: undefined,
          password: undefined,
          oauthbearer: {
            tokenEndpointUrl: undefined,
            clientId: undefined,
            clientSecret: undefined,
            scope: undefined,
            tokenFile: undefined,
            token: undefined,
            extensions: [],
          },
        },
      },
      retry: {
        enabled: true,
        maxAttempts: 3,
        initialInterval: 1_000,
        multiplier: 2,
        maxInterval: 10_000,
        jitter: false,
      },
      serde: {
        type: 'JSON',
        envelope: 'svc',
        cloudevents: { mode: 'binary', source: undefined },
        schemaRegistryUrl: undefined,
        schemaRegistryUsername: undefined,
        schemaRegistryPassword: undefined,
        schemaRegistryToken: undefined,
        schemaRegistryTokenFile: undefined,
        schemaRegistryCaFile: undefined,
        schemas: undefined,
        subjectNameStrategy: 'topic-record',
        autoRegister: true,
        onRegistryUnavailable: 'wait',
      },
      outbox: {
        enabled: false,
        datasource: { url: undefined },
        table: 'svc_outbox_events',
        initializeSchema: 'embedded',
        onNoTransaction: 'autocommit',
        publisherEnabled: true,
        pollIntervalMs: 1_000,
        batchSize: 100,
        dynamicBatchingEnabled: true,
        maxRetries: 3,
        onFailed: 'skip',
        sendTimeoutSeconds: 10,
        circuitBreakerEnabled: true,
        cleanupEnabled: false,
        retentionDays: 7,
        failedRetentionDays: 30,
      },
      shutdown: { timeoutMs: 10_000 },
      idGenerator: {
        type: 'snowflake',
        workerId: undefined,
        leasePath: undefined,
        lease: 'auto',
        group: 'svc-workers',
      },
      security: { useForwardedHeaders: false, forwardedHeader: 'x-forwarded-for', trustedProxies: [] },
      context: {
        correlationId: {
          headers: ['x-correlation-id', 'x-request-id'],
          generate: false,
          responseHeader: undefined,
        },
        actor: { userId: undefined, sessionId: undefined },
        tags: { baggage: [] },
      },
      management: {
        server: {
          port: undefined,
          address: '127.0.0.1',
          token: undefined,
          actionToken: undefined,
          publicUrl: undefined,
        },
        actions: { exclude: [] },
        endpoints: {
          web: {
            exposure: { include: undefined },
          },
        },
        endpoint: { health: { showDetails: 'always', readinessNeedsBroker: false } },
      },
      pii: {
        enabled: true,
        fields: [],
        detect: 'off',
        crypto: {
          defaultKey: undefined,
          keys: [],
          salt: undefined,
          requireSalt: undefined,
          format: 'specification',
        },
        kms: {
          enabled: false,
          type: undefined,
          onUnavailable: 'refuse',
          keys: undefined,
          aws: {
            region: undefined,
            endpoint: undefined,
            defaultKeyArn: undefined,
            encryptionContext: undefined,
            dekCacheTtlMs: 300_000,
            dekCacheMaxSize: 100,
          },
          vault: {
            address: 'https://127.0.0.1:8200',
            token: undefined,
            tokenFile: undefined,
            namespace: undefined,
            mode: 'kv',
            mountPath: undefined,
            defaultKeyPath: undefined,
            field: 'key',
            caFile: undefined,
            dekCacheTtlMs: 300_000,
            dekCacheMaxSize: 100,
          },
        },
      },
      targets: [],
      baseDir: cwd,
      file: join(cwd, 'svc.config.yaml'),
    };
    assert.deepEqual(config, expected);
    assert.deepEqual([problems, warnings], [[], []]);
  });

  it('takes defaults < file < environment < code, name by name', () => {
    const cwd = folderWith({
      'svc.config.yaml':
        'svc: { broker: { topic: file, client-id: file, max-in-flight: 1, async-mode: true } }',
    });
    const env = { SVC_BROKER_TOPIC: 'env', SVC_BROKER_CLIENT_ID: 'env', SVC_BROKER_MAX_IN_FLIGHT: '2' };
    const { broker } = loadConfig({ cwd, env, code: { svc: { broker: { topic: 'code' } } } }).config;
    assert.deepEqual(
      [broker.topic, broker.clientId, broker.maxInFlight, broker.asyncMode, broker.requestTimeoutMs],
      ['code', 'env', 2, true, 30_000],
    );
  });

  it('lets a good variable stand in for a bad value of the file', () => {
    const loaded = loadYaml('svc: { broker: { topic: orders, max-in-flight: 0 } }', {
      SVC_BROKER_MAX_IN_FLIGHT: '3',
    });
    assert.deepEqual([loaded.problems, loaded.config.broker.maxInFlight], [[], 3]);
  });

  it('replaces a list, and does not join it', () => {
    const file = 'svc: { broker: { topic: orders, bootstrap-servers: [a:1, b:2] } }';
    const { broker } = loadYaml(file, { SVC_BROKER_BOOTSTRAP_SERVERS: 'c:3' }).config;
    assert.deepEqual(broker.bootstrapServers, ['c:3']);
  });

  it('names the client by the brokers that are configured', () => {
    assert.equal(loadCode({}).config.broker.client, 'file');
    assert.equal(loadCode({ broker: { bootstrapServers: ['a:1'] } }).config.broker.client, 'kafkajs');
    assert.equal(
      loadCode({ broker: { bootstrapServers: ['a:1'], client: 'file' } }).config.broker.client,
      'file',
    );
    assert.equal(loadCode({ broker: { client: 'MEMORY' } }).config.broker.client, 'memory');
  });

  it('makes paths relative to the folder of the file, wherever the value comes from', () => {
    const root = folderWith({
      'svc.config.yaml': 'svc: { broker: { topic: orders, file: { path: data } } }',
      'package.json': '{ "name": "orders" }',
      'app/keep': '',
    });
    const loaded = loadConfig({ cwd: join(root, 'app'), env: { SVC_ID_GENERATOR_LEASE_PATH: 'leases' } });
    assert.equal(loaded.config.baseDir, root);
    assert.equal(loaded.config.broker.file.path, join(root, 'data'));
    assert.equal(loaded.config.idGenerator.leasePath, join(root, 'leases'));
  });

  it('says where it looked when there is no configuration, and calls nothing wrong', () => {
    const cwd = folderWith();
    const loaded = loadConfig({
      cwd,
      env: { KAFKA_BROKERS: 'a:1', OTEL_SERVICE_NAME: 'x', MANAGEMENT_SERVER_PORT: '9000' },
    });
    assert.equal(loaded.found, false);
    assert.equal(
      loaded.notFound,
      `no configuration: looked for svc.config.{yaml,yml,json,mjs,ts} in ${cwd}, and for ` +
        'environment variables that begin with SVC_. Create svc.config.yaml (npx --no svc init), or name a file in SVC_CONFIG.',
    );
    assert.deepEqual([loaded.problems, loaded.warnings], [[], []]);
  });

  it('counts a variable of its own, or code, as a configuration', () => {
    const cwd = folderWith();
    const byVariable = loadConfig({ cwd, env: { SVC_BROKER_TOPIC: 'orders' } });
    assert.deepEqual([byVariable.found, byVariable.notFound, byVariable.problems], [true, undefined, []]);
    assert.equal(byVariable.config.baseDir, cwd);
    assert.equal(byVariable.config.file, undefined);
    assert.equal(loadConfig({ cwd, env: {}, code: {} }).found, true);
  });

  it('does not even read the file when the environment or code switches svc off', () => {
    const cwd = folderWith({ 'svc.config.mjs': 'globalThis.svcConfigWasRead = true; export default {}' });
    const byVariable = loadConfig({ cwd, env: { SVC_ENABLED: 'false' } });
    assert.deepEqual([byVariable.config.enabled, byVariable.found, byVariable.problems], [false, true, []]);
    assert.equal(loadConfig({ cwd, env: {}, code: { svc: { enabled: false } } }).config.enabled, false);
    assert.equal('svcConfigWasRead' in globalThis, false);
    assert.equal(
      loadConfig({ cwd, env: { SVC_ENABLED: 'false' }, code: { svc: { enabled: true } } }).config.enabled,
      true,
    );
    assert.equal('svcConfigWasRead' in globalThis, true);
    Reflect.deleteProperty(globalThis, 'svcConfigWasRead');
  });

  it('asks for nothing when the file switches svc off', () => {
    const loaded = loadYaml('svc: { enabled: false }');
    assert.deepEqual([loaded.config.enabled, loaded.problems], [false, []]);
  });

  it('name and version of the service are what is configured; who else knows them is not its business', () => {
    const cwd = folderWith({
      'svc.config.yaml': 'svc: { broker: { topic: t }, service: { name: shop, version: "7" } }',
    });
    assert.deepEqual(loadConfig({ cwd, env: {} }).config.service, { name: 'shop', version: '7' });
  });

  it('lives through a working directory that is gone', () => {
    const before = process.cwd();
    const folder = join(folderWith(), 'gone');
    mkdirSync(folder);
    process.chdir(folder);
    removeFolders();
    try {
      assert.deepEqual(lines(loadConfig({ env: { SVC_BROKER_TOPIC: 'orders' } }).problems), []);
    } finally {
      process.chdir(before);
    }
  });
});
