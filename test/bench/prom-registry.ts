import prom from 'prom-client';
import { parsePrometheus } from '../observe/prometheus/prometheus-text.ts';

/** A registry of prom-client with the series of a text: what an application would have that counts by itself. */
export async function registryLike(text: string): Promise<prom.Registry> {
  const registry = new prom.Registry();
  for (const [name, { help, type, series }] of parsePrometheus(text)) {
    const keys = Object.keys(series).map(
      (key) => JSON.parse(key.slice(key.indexOf('{'))) as Record<string, string>,
    );
    const labelNames = Object.keys(keys[0] ?? {}).filter((label) => label !== 'le');
    const of = { name, help, labelNames, registers: [registry] };
    if (type === 'histogram') {
      const bounds = [...new Set(keys.map(({ le }) => Number(le)).filter(Number.isFinite))];
      const histogram = new prom.Histogram({ ...of, buckets: bounds });
      for (const { le: _, ...labels } of keys)
        for (const bound of [0, ...bounds]) histogram.observe(labels, bound + 0.001);
    } else {
      const gauge = new prom.Gauge(of);
      for (const [index, value] of Object.values(series).entries()) gauge.set(keys[index] ?? {}, value);
    }
  }
  return registry;
}
