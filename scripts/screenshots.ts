import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openPage, stopBrowser } from '../test/console/browser.ts';
import { startBusyService } from '../test/console/busy-service.ts';
import { smallPng } from './small-png.ts';

// `node scripts/screenshots.ts`: the pictures of docs/console.md, of the page as it was built last, over a made-up shop.
const folder = resolve(import.meta.dirname, '../docs/images');
mkdirSync(folder, { recursive: true });
const service = await startBusyService();
for (const width of [1280, 390])
  for (const dark of [false, true]) {
    const { page, complaints } = await openPage({ width, dark });
    await page.goto(service.address);
    // A rate takes two looks.
    await page.waitForSelector('.flows');
    await page.waitForSelector('.plot canvas');
    const height = Math.min(
      width === 1280 ? 2_000 : 1_600,
      Number(await page.evaluate('document.documentElement.scrollHeight')),
    );
    const png = await page.screenshot({ captureBeyondViewport: true, clip: { x: 0, y: 0, width, height } });
    writeFileSync(join(folder, `console-${width}-${dark ? 'dark' : 'light'}.png`), smallPng(png));
    await page.close();
    if (complaints.length > 0) throw new Error(complaints.join('\n'));
  }
await stopBrowser();
await service.close();
