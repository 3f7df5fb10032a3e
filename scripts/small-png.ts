import { crc32, deflateSync, inflateSync } from 'node:zlib';

const signature = Buffer.from('89504e470d0a1a0a', 'hex');
const maxColors = 256;

/** A picture of a page has few colours: with a palette it takes a third. Takes what a browser makes: eight bits, three or four channels. */
export function smallPng(png: Uint8Array): Buffer {
  const { width, height, pixels } = decode(Buffer.from(png));
  const counts = new Map<number, number>();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const byCount = [...counts].sort(([, one], [, other]) => other - one).map(([color]) => color);
  // One for colours that nobody tells apart: else shades of letters leave no room for what is rare and stands out.
  const palette: number[] = [];
  for (const color of byCount)
    if (palette.length < maxColors && palette.every((other) => distance(color, other) > 48))
      palette.push(color);
  const indexOf = new Map(palette.map((color, index) => [color, index]));
  for (const color of byCount) if (!indexOf.has(color)) indexOf.set(color, nearest(color, palette));
  const rows = Buffer.alloc((width + 1) * height);
  for (const [at, pixel] of pixels.entries())
    rows[at + Math.floor(at / width) + 1] = indexOf.get(pixel) as number;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const colors = Buffer.from(palette.flatMap(channels));
  const data = deflateSync(rows, { level: 9 });
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('PLTE', colors),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

const channels = (color: number): number[] => [color >> 16, (color >> 8) & 255, color & 255];

function distance(one: number, other: number): number {
  return (
    ((one >> 16) - (other >> 16)) ** 2 +
    (((one >> 8) & 255) - ((other >> 8) & 255)) ** 2 +
    ((one & 255) - (other & 255)) ** 2
  );
}

function nearest(color: number, palette: readonly number[]): number {
  let best = 0;
  for (const [index, other] of palette.entries())
    if (distance(color, other) < distance(color, palette[best] as number)) best = index;
  return best;
}

function chunk(name: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const body = Buffer.concat([Buffer.from(name), data]);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

function decode(png: Buffer): { width: number; height: number; pixels: Uint32Array } {
  const parts: Buffer[] = [];
  for (let at = signature.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const size = png[25] === 6 ? 4 : 3;
  const raw = inflateSync(Buffer.concat(parts));
  const line = width * size;
  const bytes = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x++) {
      const at = y * line + x;
      const left = x < size ? 0 : (bytes[at - size] as number);
      const up = y === 0 ? 0 : (bytes[at - line] as number);
      const corner = x < size || y === 0 ? 0 : (bytes[at - line - size] as number);
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter as number] as number;
      bytes[at] = (raw[y * (line + 1) + 1 + x] as number) + predicted;
    }
  }
  const pixels = new Uint32Array(width * height);
  for (let at = 0; at < pixels.length; at++) pixels[at] = bytes.readUIntBE(at * size, 3);
  return { width, height, pixels };
}

function paeth(left: number, up: number, corner: number): number {
  const estimate = left + up - corner;
  const [byLeft, byUp, byCorner] = [left, up, corner].map((one) => Math.abs(estimate - one)) as [
    number,
    number,
    number,
  ];
  if (byLeft <= byUp && byLeft <= byCorner) return left;
  return byUp <= byCorner ? up : corner;
}
