import assert from 'node:assert/strict';
import { loadConfig } from '../../../src/config/read/load.ts';
import { options, variableOf } from '../../../src/config/schema/schema.ts';
import { folderWith, lines, removeFolders } from '../config-folder.ts';

function load(env: Record<string, string>): ReturnType<typeof loadConfig> {
  return loadConfig({ cwd: folderWith(), env: { SVC_BROKER_TOPIC: 'orders', ...env } });
}

describe('environment variables', () => {
  afterEach(removeFolders);

  it('are named after the options, each another one', () => {
    assert.equal(variableOf('svc.broker.request-timeout-ms'), 'SVC_BROKER_REQUEST_TIMEOUT_MS');
    assert.equal(variableOf('management.server.port'), 'MANAGEMENT_SERVER_PORT');
    const all = options.flatMap((option) => [variableOf(option.name), ...(option.aliases ?? [])]);
    assert.equal(new Set(all).size, all.length);
  });

  it('set every option', () => {
    const cwd = folderWith();
    for (const { name, type } of options) {
      const { isGiven, problems } = loadConfig({ cwd, env: { [variableOf(name)]: 'a\0b' } });
      const given = options.filter((option) => isGiven(option.name));
      assert.deepEqual(
        given.map((option) => option.name),
        [name],
      );
      const places = problems.flatMap(({ where = '' }) => (where === '' ? [] : [where]));
      // A free text takes any character, and nothing is said of it.
      if (!['string', 'list', 'rules'].includes(type)) assert.notEqual(places.length, 0, name);
      for (const place of places) assert.equal(place, `environment variable ${variableOf(name)}`);
    }
  });

  it('are read as the type of the option', () => {
    const { config, problems } = load({
      SVC_BROKER_ASYNC_MODE: 'TRUE',
      SVC_AOP_ENABLED: '0',
      SVC_BROKER_MAX_IN_FLIGHT: ' 7 ',
      SVC_BROKER_BOOTSTRAP_SERVERS: 'a:1, b:2,',
      SVC_LOG_LEVEL: 'Debug',
    });
    assert.deepEqual(lines(problems), []);
    assert.deepEqual(
      [config.broker.asyncMode, config.aop.enabled, config.broker.maxInFlight],
      [true, false, 7],
    );
    assert.deepEqual([config.broker.bootstrapServers, config.log.level], [['a:1', 'b:2'], 'debug']);
  });

  it('count as not set when empty', () => {
    const { config, problems } = load({ SVC_BROKER_MAX_IN_FLIGHT: '', SVC_BROKER_CLIENT_ID: '  ' });
    assert.deepEqual([lines(problems), config.broker.maxInFlight, config.broker.clientId], [[], 8, 'svc']);
    assert.equal(loadConfig({ cwd: folderWith(), env: { SVC_BROKER_TOPIC: '' } }).found, false);
  });

  it('keep the spaces of a password, but not the line end behind it', () => {
    const { config } = load({ SVC_BROKER_SASL_PASSWORD: ' a b \n' });
    assert.equal(config.broker.sasl.password, ' a b ');
  });

  it('say what is wrong in the same words as the file', () => {
    const { problems } = load({
      SVC_BROKER_MAX_IN_FLIGHT: 'abc',
      SVC_BROKER_REQUEST_TIMEOUT_MS: '0',
      SVC_ENABLED: 'maybe',
      SVC_ID_GENERATOR_WORKER_ID: '1024',
      SVC_BROKER_BUFFER_MAX_EVENTS: '1.5',
    });
    assert.deepEqual(lines(problems), [
      'svc.enabled: must be true or false, got a string (environment variable SVC_ENABLED).',
      'svc.id-generator.worker-id: workerId must be between 0 and 1023, got 1024 (environment variable SVC_ID_GENERATOR_WORKER_ID). Allowed: 0 to 1023.',
      'svc.broker.request-timeout-ms: requestTimeoutMs must be positive, got 0 (environment variable SVC_BROKER_REQUEST_TIMEOUT_MS). Allowed: 1 to 2147483647 ms, default 30000.',
      'svc.broker.max-in-flight: must be an integer, got a string (environment variable SVC_BROKER_MAX_IN_FLIGHT). Allowed: 1 to 1000 sends, default 8.',
      'svc.broker.buffer.max-events: must be an integer, got 1.5 (number) (environment variable SVC_BROKER_BUFFER_MAX_EVENTS). Allowed: 1 to 1000000 events, default 10000.',
    ]);
  });

  it('have other names that are asked second', () => {
    const { config } = load({
      KAFKA_BROKERS: 'a:1',
      PII_ENCRYPTION_KEY: 'k',
      PII_HASH_SALT: 's',
      SVC_PII_CRYPTO_SALT: 't',
    });
    const { defaultKey, salt } = config.pii.crypto;
    assert.deepEqual([config.broker.bootstrapServers, defaultKey, salt], [['a:1'], 'k', 't']);
    assert.equal(load({ PII_HASH_SALT: 's' }).config.pii.crypto.salt, 's');
  });

  it('bring the targets as JSON', () => {
    const { config, problems } = load({ SVC_TARGETS: '[{"module":"./a.js","function":"b"}]' });
    assert.deepEqual([lines(problems), config.targets[0]?.id], [[], 'a.js#b']);
    assert.equal(config.targets[0]?.where, 'environment variable SVC_TARGETS');
    assert.deepEqual(lines(load({ SVC_TARGETS: '[{' }).problems), [
      'svc.targets: is not valid JSON (environment variable SVC_TARGETS). Write the list of targets as JSON.',
    ]);
  });

  it('that are misspelled get a warning, and those of other software none', () => {
    const { warnings, problems } = load({
      SVC_BROKER_TOPPPIC: 'two edits',
      SVC_BROKER_SERVICE_HOST: '10.0.0.1',
      SVC_PORT: 'tcp://10.0.0.1:80',
      SVC_VERSION: '1',
      SVC_BROKER: 'x',
      SVC_BROKER_TOPIXYZ: 'three edits',
      SERVICE_NAME: 'x',
    });
    assert.deepEqual(lines(problems), []);
    assert.deepEqual(lines(warnings), [
      'SVC_BROKER_TOPPPIC: is not a known environment variable. Did you mean SVC_BROKER_TOPIC?',
    ]);
  });
});
