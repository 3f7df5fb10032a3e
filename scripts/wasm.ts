// Writes src/capture/source/segments-wasm.ts from segments.wat.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import loadWabt from 'wabt';

const source = resolve(import.meta.dirname, 'segments.wat');
export const made = resolve(import.meta.dirname, '../src/capture/source/segments-wasm.ts');

export async function renderWasm(): Promise<string> {
  const wabt = await loadWabt();
  const module = wabt.parseWat('segments.wat', readFileSync(source, 'utf8'));
  const text = Buffer.from(module.toBinary({}).buffer).toString('base64');
  return `/** Made by scripts/wasm.ts: change scripts/segments.wat, not this. */\nexport const segmentsWasm =\n  '${text}';\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(made, await renderWasm());
