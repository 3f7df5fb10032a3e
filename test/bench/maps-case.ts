import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import type * as Mappings from '../../src/capture/source/source-map.ts';
import type * as ReadMap from '../../src/capture/source/source-map.ts';

// One reading of a source map in a process that has read none before, as a start has it: wall and CPU time in ms.
const [, , built = '', file = '', source = ''] = process.argv;
const { readMap, sourcesAt } = createRequire(import.meta.url)(built) as typeof Mappings & typeof ReadMap;
const text = readFileSync(file, 'utf8');
const [start, before] = [performance.now(), process.cpuUsage()];
const map = readMap(file, text, [basename(source)]);
if (map !== undefined && 'parts' in map) for (const each of sourcesAt(map, source, [], text)) each.mappings();
const wall = performance.now() - start;
const { user, system } = process.cpuUsage(before);
// Node loads its streams for this line: it is not part of the reading.
process.stdout.write(JSON.stringify([wall, (user + system) / 1000]));
