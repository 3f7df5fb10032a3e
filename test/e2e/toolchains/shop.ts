import type { Files } from '../support/run-app.ts';

/** The targets of the application below, by file: every kind of definition, once. */
const functions: Readonly<Record<string, readonly string[]>> = {
  orders: [
    'OrderService.prototype.create',
    'OrderService.prototype.check',
    'OrderService.prototype.arrow',
    'OrderService.open',
    'placeOrder',
    'price',
    'quick',
    'standard',
    'createRepository().insert',
  ],
  main: ['runAll'],
};

/** Events of one run, by event type, `fieldEvents` aside. `declared` is `@PublishEvent`; `both` is decorated and configured as well. */
export const shopEvents: Readonly<Record<string, number>> = {
  'OrderService.prototype.create': 1,
  'OrderService.prototype.check': 2,
  'OrderService.prototype.arrow': 1,
  'OrderService.open': 1,
  placeOrder: 1,
  price: 2,
  quick: 2,
  standard: 1,
  'createRepository().insert': 1,
  runAll: 1,
  declared: 2,
  'declared static': 1,
  'OrderService.prototype.both': 1,
};

/** A legacy decorator cannot see the value of a field: svc says so, and the field works. */
export const fieldEvents: Readonly<Record<string, number>> = { 'declared field': 1 };

/**
 * `file`: where a toolchain leaves what was `orders` or `main`. A bundle exports nothing of its parts: there a function is
 * named as it is defined.
 */
export function shopConfig(file: (name: string) => string): string {
  const isBundle = file('orders') === file('main');
  const targets = Object.entries(functions).flatMap(([name, paths]) =>
    paths.map((path) => ({
      module: file(name),
      function: isBundle ? path.replace(/^placeOrder$/, 'place') : path,
      eventType: path,
    })),
  );
  const both = 'OrderService.prototype.both';
  targets.push({ module: file('orders'), function: both, eventType: both });
  return JSON.stringify(
    { svc: { service: { name: 'shop' }, broker: { client: 'file', topic: 'shop' }, targets } },
    null,
    1,
  );
}

const decorated = (legacy: boolean): string => `
import { PublishEvent } from 'svc';
${legacy ? "import 'reflect-metadata';\nfunction Get(path: string) { return (_: object, __: string, descriptor: PropertyDescriptor) => { Reflect.defineMetadata('path', path, descriptor.value); }; }\nfunction Injectable() { return (target: object) => { Reflect.defineMetadata('injectable', true, target); }; }\nenum Kind { A = 1 }" : 'const Kind = { A: 1 };'}

declare global { var here: () => void; }

${legacy ? '@Injectable()\n' : ''}export class OrderService {
  ${legacy ? 'constructor(private readonly dep: string) {}' : 'private readonly dep: string;\n  constructor(dep: string) { this.dep = dep; }'}
  ${legacy ? "@Get('/orders')" : ''}
  async create(id: number): Promise<string> {
    here();
    return this.dep + (this.check(id) + Kind.A);
  }
  check(id: number): number { here(); return id; }
  arrow = async (id: number): Promise<number> => { here(); return id; };
  static open(dep: string): OrderService { here(); return new OrderService(dep); }
  @PublishEvent({ eventType: 'declared' })
  async declared(id: number): Promise<number> { here(); return id; }
  @PublishEvent({ eventType: 'declared static' })
  static declaredStatic(id: number): number { here(); return id; }
  // @ts-ignore The types refuse a legacy decorator here.
  @PublishEvent({ eventType: 'declared field' })
  declaredField = async (id: number): Promise<number> => { here(); return id; };
  @PublishEvent({ eventType: 'not this one' })
  both(id: number): number { here(); return id; }
}
`;

const plain = `
async function place(id: number): Promise<number> { here(); return price(id); }
function price(id: number): number { here(); return id * 10; }
export const quick = async (id: number): Promise<number> => {
  here();
  return id;
};
export default async function standard(): Promise<number> { here(); return quick(2); }
export { place as placeOrder, price };
export function createRepository<T>(prefix: T) {
  return { async insert(id: number): Promise<string> { here(); return \`\${prefix}\${id}\`; } };
}
`;

const main = (specifier: string, legacy: boolean): string => `
import standard, { createRepository, OrderService, placeOrder, price, quick } from '${specifier}';

async function runAll(): Promise<unknown[]> {
  const service = OrderService.open('d');
  return [
    await service.create(1), service.check(2), await service.arrow(3), await placeOrder(4), price(5), await quick(6),
    await standard(), await createRepository('r').insert(7), await service.declared(8), await service.declared(9), service.both(10),
    OrderService.declaredStatic(11), await service.declaredField(12),
    ${legacy ? "Reflect.getMetadata('path', service.create), Reflect.getMetadata('injectable', OrderService)," : ''}
  ];
}

void runAll().then((returned) => console.log(JSON.stringify({ returned, lines: (globalThis as { lines?: string[] }).lines })));
`;

const here = `
const lines: string[] = [];
Object.assign(globalThis, {
  lines,
  here() {
    const frame = new Error().stack!.split('\\n')[2]!;
    lines.push(/[^/\\\\]+:\\d+(?=:\\d+\\)?$)/.exec(frame)?.[0] ?? frame);
  },
});
export {};
`;

/** A small application in TypeScript: ES modules with TC39 decorators, or CommonJS with legacy ones and an enum. */
export function shopSources(kind: 'esm' | 'cjs', compilerOptions: object = {}): Files {
  const isLegacy = kind === 'cjs';
  const from = (name: string) => (isLegacy ? `./${name}` : `./${name}.js`);
  return {
    'src/here.ts': here,
    'src/orders.ts': decorated(isLegacy) + plain,
    'src/main.ts': `import '${from('here')}';${main(from('orders'), isLegacy)}`,
    'package.json': JSON.stringify({
      name: 'shop',
      version: '1.0.0',
      type: isLegacy ? 'commonjs' : 'module',
    }),
    'tsconfig.json': JSON.stringify({
      compilerOptions: {
        target: 'es2022',
        module: isLegacy ? 'commonjs' : 'nodenext',
        moduleResolution: isLegacy ? 'node10' : 'nodenext',
        esModuleInterop: true,
        skipLibCheck: true,
        types: [],
        lib: ['es2023', 'esnext.decorators', 'dom'],
        rootDir: 'src',
        outDir: 'dist',
        ...(isLegacy
          ? {
              experimentalDecorators: true,
              emitDecoratorMetadata: true,
              strict: false,
              ignoreDeprecations: '5.0',
            }
          : { strict: false }),
        ...compilerOptions,
      },
      include: ['src'],
    }),
  };
}

/** What a run prints, whatever ran it: `lines` aside, which depend on the toolchain. */
export function shopReturns(kind: 'esm' | 'cjs'): unknown[] {
  const all: unknown[] = ['d2', 2, 3, 40, 50, 6, 2, 'r7', 8, 9, 10, 11, 12];
  return kind === 'cjs' ? [...all, '/orders', true] : all;
}
