import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, relative } from 'node:path';
import { readSource } from '../../src/context/source.ts';
import { temporaryFolder } from '../support/folders.ts';

describe('readSource', () => {
  let folder = '';
  before(() => {
    folder = temporaryFolder('source');
    manifest('app', '{"name":"@acme/orders","version":"1.4.0"}');
    manifest('app/dist', '{"type":"module"}');
    manifest('app/packages/broken', '{ not json');
    manifest('app/node_modules/tool', '{"name":"tool","version":"9.9.9"}');
    manifest('unversioned', '{"name":"plain","version":7}');
  });

  function manifest(directory: string, text: string): void {
    mkdirSync(join(folder, directory), { recursive: true });
    writeFileSync(join(folder, directory, 'package.json'), text);
  }

  function read(
    options: Omit<NonNullable<Parameters<typeof readSource>[0]>, 'entry' | 'directory'>,
    entry = 'app/dist/main.js',
    directory = 'app',
  ) {
    return readSource({
      env: {},
      readHostname: () => 'h',
      ...options,
      entry: join(folder, entry),
      directory: join(folder, directory),
    });
  }

  it('takes the nearest package.json with a name above the entry file', () => {
    const source = { serviceName: '@acme/orders', serviceVersion: '1.4.0', hostname: 'h' };
    assert.deepEqual(read({}), source);
    assert.deepEqual(read({}, 'app/packages/broken/main.js', '.'), source);
    assert.deepEqual(read({}, 'unversioned/main.js'), {
      ...source,
      serviceName: 'plain',
      serviceVersion: null,
    });
  });

  it('starts from the working directory where the entry is a tool, or missing', () => {
    assert.equal(read({}, 'app/node_modules/tool/bin.js', 'app').serviceName, '@acme/orders');
    const options = { env: {}, directory: join(folder, 'app') };
    assert.equal(
      readSource({ ...options, entry: join(folder, 'app/node_modules/.bin/tool') }).serviceName,
      '@acme/orders',
    );
    assert.equal(readSource({ ...options, entry: 'dist/main.js' }).serviceName, '@acme/orders');
  });

  it('goes by configuration, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, package.json, each field on its own', () => {
    const OTEL_RESOURCE_ATTRIBUTES = 'a=b, service.name = from%20attributes,service.version=2%2E0,=,x';
    const env = { OTEL_SERVICE_NAME: 'from-env', OTEL_RESOURCE_ATTRIBUTES };
    const both = (source: { serviceName: string | null; serviceVersion: string | null }) => [
      source.serviceName,
      source.serviceVersion,
    ];
    assert.deepEqual(both(read({ name: 'n', version: 'v', env })), ['n', 'v']);
    assert.deepEqual(both(read({ name: '', env })), ['from-env', '2.0']);
    assert.deepEqual(both(read({ env: { OTEL_RESOURCE_ATTRIBUTES } })), ['from attributes', '2.0']);
    assert.deepEqual(both(read({ env: { OTEL_SERVICE_NAME: 'from-env' } })), ['from-env', '1.4.0']);
    assert.deepEqual(both(read({ env: { OTEL_SERVICE_NAME: '' } })), ['@acme/orders', '1.4.0']);
    assert.deepEqual(both(read({ env: { OTEL_RESOURCE_ATTRIBUTES: 'service.name=%zz' } })), [
      '@acme/orders',
      '1.4.0',
    ]);
  });

  it('is null where nobody knows', () => {
    const nowhere = relative('/', folder) === '' ? folder : '/';
    const source = readSource({ env: {}, entry: '/no/main.js', directory: nowhere, readHostname: () => '' });
    assert.deepEqual(source, { serviceName: null, serviceVersion: null, hostname: null });
  });

  it('knows this host', () => {
    assert.equal(readSource().hostname, hostname());
  });
});
