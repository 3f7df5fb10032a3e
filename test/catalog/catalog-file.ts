import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Catalog,
  type CatalogEvent,
  catalogFileName,
  readCatalog,
  type Shape,
} from '../../src/catalog/shape.ts';
import { temporaryFolder } from '../support/folders.ts';

let file: string | undefined;

/** The shape that svc reads from a catalog file with this payload. */
export function shapeOf(payload: object): Shape {
  file ??= join(temporaryFolder('catalog-file'), catalogFileName);
  const event = { from: [], topics: [], contentType: 'application/json', keys: [], payload };
  writeFileSync(file, JSON.stringify({ svcCatalog: 1, events: { T: event } }));
  const { payload: shape } = (readCatalog(file) as Catalog).get('T') as CatalogEvent;
  return shape;
}
