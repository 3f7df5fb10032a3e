import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { recoveryConfig } from '../../../src/cli/recovery.ts';
import { WrongUse } from '../../../src/cli/terminal.ts';
import { temporaryFolder } from '../../support/folders.ts';

describe('configuration of a recovery', () => {
  let folder: string;
  const { cwd, env } = process;
  beforeEach(() => {
    folder = temporaryFolder('recovery');
    process.env = { PATH: env.PATH };
    process.cwd = () => folder;
  });
  afterEach(() => {
    process.env = env;
    process.cwd = cwd;
  });

  const withFile = (text: string): void => writeFileSync(join(folder, 'svc.config.yaml'), text);
  const read = (broker?: string, config?: string) => recoveryConfig({ broker, config });
  const wrongUse = (work: () => void, message: RegExp): void =>
    assert.throws(work, (error: Error) => {
      assert.ok(error instanceof WrongUse, error.stack);
      assert.match(error.message, message);
      return true;
    });

  it('without any broker nothing is sent: events of Kafka would end in files of this machine', () => {
    wrongUse(() => read().checkBroker(), /^no broker: give --broker/);
    withFile('svc: { broker: { topic: orders } }');
    wrongUse(() => read().checkBroker(), /^no broker: give --broker/);
    withFile('svc: { broker: { topic: orders, client: memory } }');
    wrongUse(() => read().checkBroker(), /memory reaches no broker/);
  });

  it('topic files are a broker where somebody says so', () => {
    withFile('svc: { broker: { topic: orders, client: file } }');
    const { config, checkBroker } = read();
    checkBroker();
    assert.equal(config.broker.client, 'file');
  });

  it('--broker alone is enough, and wins over the file', () => {
    const { config, checkBroker } = read('a:1,b:2');
    checkBroker();
    assert.deepEqual([config.broker.client, config.broker.bootstrapServers], ['kafkajs', ['a:1', 'b:2']]);
    withFile('svc: { broker: { client: file } }');
    assert.equal(read('a:1').config.broker.client, 'kafkajs');
    wrongUse(() => read('a'), /must be host:port/);
  });

  it('--broker keeps the other client of Kafka, and what only that one can do', () => {
    withFile('svc: { broker: { client: platformatic, compression: lz4, bootstrapServers: "old:1" } }');
    const { config } = read('new:1');
    assert.deepEqual([config.broker.client, config.broker.bootstrapServers], ['platformatic', ['new:1']]);
  });

  it('a file that is not there, is no YAML or has a name wrong is not passed over', () => {
    wrongUse(() => read('a:1', join(folder, 'gone.yaml')), /does not exist/);
    withFile('svc: { broker: [');
    wrongUse(() => read('a:1'), /is not valid YAML/);
    withFile('svc: { brokr: { dlqBackupPath: /data } }');
    wrongUse(() => read('a:1'), /svc\.brokr: is an unknown name/);
    withFile('svc: { broker: { backup: { s3Enabled: true } } }');
    wrongUse(() => read('a:1'), /s3Bucket is required/);
  });

  it('what only the application needs is no matter: topic, targets, keys', () => {
    withFile(`
svc:
  targets: [{ module: 5 }]
  pii: { crypto: { default-key: short } }
  retry: { max-attempts: -1 }`);
    assert.equal(read('a:1').config.broker.client, 'kafkajs');
  });
});
