import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { createDecryptionKeys } from '../../../src/consumer.ts';
import { isOwnWork } from '../../../src/ground/lifecycle.ts';
import { createSealer } from '../../../src/protect/keys/create-sealer.ts';
import type { EnvelopeKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import { fakeKeyService } from '../fake-key-service.ts';

// With the instrumentations of OpenTelemetry and a real KMS: test/e2e/toolchains/key-service.test.ts.
describe('calls to a key service', () => {
  const spans = new InMemorySpanExporter();
  const tracers = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] });
  const request = new AsyncLocalStorage<string>();
  let seen: { call: string; own: boolean; request: string | undefined }[];
  before(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    trace.setGlobalTracerProvider(tracers);
  });
  after(async () => {
    trace.disable();
    context.disable();
    await tracers.shutdown();
  });
  beforeEach(() => {
    seen = [];
    spans.reset();
  });

  /** As an instrumented client: a span for each call, also after its first wait. */
  function instrumented(): EnvelopeKeyProvider {
    const service = fakeKeyService();
    async function call<T>(name: string, answer: () => Promise<T>): Promise<T> {
      for (const step of [name, `${name}, later`]) {
        trace.getTracer('client').startSpan(step).end();
        seen.push({ call: step, own: isOwnWork(), request: request.getStore() });
        await new Promise((resolve) => setImmediate(resolve));
      }
      return answer();
    }
    return {
      ...service,
      generateDataKey: (keyId) => call('generate', () => service.generateDataKey(keyId)),
      decryptDataKey: (keyId, key) => call('decrypt', () => service.decryptDataKey(keyId, key)),
    };
  }

  /** In a request that is traced. */
  const inRequest = <T>(work: () => Promise<T>): Promise<T> =>
    trace.getTracer('app').startActiveSpan('request', (span) =>
      request.run('of one request', async () => {
        try {
          return await work();
        } finally {
          span.end();
        }
      }),
    );

  it('make no spans, are not captured, and keep nothing of the request that caused them', async () => {
    const provider = instrumented();
    const sealer = createSealer({ provider, defaultKeyId: 'k' });
    const keys = createDecryptionKeys({ provider, keyIds: ['k'] });
    const field = { keyId: undefined, eventType: 'E', path: 'a' };
    await inRequest(async () => {
      assert.throws(() => sealer.encrypt('x', field), { code: 'SVC_PROTECT_KEY_UNAVAILABLE' });
      while (!sealer.keyState(undefined).usable) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(await keys.open(sealer.encrypt('x', field), field), 'x');
      await sealer.invalidateKeys();
    });
    await sealer.close();
    await keys.close();
    assert.deepEqual(
      seen,
      ['generate', 'generate, later', 'decrypt', 'decrypt, later', 'generate', 'generate, later'].map(
        (call) => ({ call, own: true, request: undefined }),
      ),
    );
    assert.deepEqual(
      spans.getFinishedSpans().map(({ name }) => name),
      ['request'],
    );
  });
});
