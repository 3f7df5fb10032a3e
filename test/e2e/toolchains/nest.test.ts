import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { installPacked } from '../../support/packed.ts';
import { freshFolder, type Run, runApp, writeFiles } from '../support/run-app.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { nest } from './neighbours.ts';

const { node, otel, isMatrix } = await subject();

const packages = {
  '@nestjs/common': '11.2.10',
  '@nestjs/core': '11.2.10',
  '@nestjs/platform-express': '11.2.10',
  'reflect-metadata': '0.2.2',
  rxjs: '7.8.2',
  typescript: '5.9.3',
};

const main = `
import 'reflect-metadata';
import { Body, CanActivate, Controller, ExecutionContext, Get, Injectable, Module, Param, ParseIntPipe, Post, SetMetadata, UseGuards } from '@nestjs/common';
import { NestFactory, Reflector } from '@nestjs/core';
import { PublishEvent } from 'svc';

@Injectable()
class RoleGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}
  canActivate(context: ExecutionContext): boolean {
    const role = this.reflector.get<string>('role', context.getHandler());
    return role === undefined || context.switchToHttp().getRequest().headers['x-role'] === role;
  }
}

@Injectable()
export class OrderService {
  private readonly orders: { id: number; product: string }[] = [];
  async create(product: string) { return this.keep({ id: this.orders.length + 1, product }); }
  keep(order: { id: number; product: string }) { this.orders.push(order); return order; }
  @PublishEvent({ eventType: 'order.found' })
  find(id: number) { return this.orders[id - 1] ?? null; }
}

@Controller('orders')
@UseGuards(RoleGuard)
export class OrderController {
  constructor(private readonly orders: OrderService) {}
  @Post()
  @SetMetadata('role', 'admin')
  async create(@Body() body: { product: string }) { return this.orders.create(body.product); }
  @Get(':id')
  get(@Param('id', ParseIntPipe) id: number) { return this.orders.find(id); }
}

@Module({ controllers: [OrderController], providers: [OrderService, RoleGuard] })
class AppModule {}

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: false });
  await app.listen(0, '127.0.0.1');
  const address = await app.getUrl();
  const post = (role: string) => fetch(address + '/orders', { method: 'POST', headers: { 'x-role': role, 'content-type': 'application/json' }, body: '{"product":"bell"}' });
  const answers = [];
  for (const response of [await post('guest'), await post('admin'), await fetch(address + '/orders/1'), await fetch(address + '/orders/x'), await fetch(address + '/none')]) {
    answers.push([response.status, response.ok ? await response.json() : null]);
  }
  await app.close();
  console.log(JSON.stringify({ answers, keys: Reflect.getMetadataKeys(OrderController.prototype.create).sort(), types: Reflect.getMetadata('design:paramtypes', OrderController.prototype, 'create').map((type: Function) => type.name) }));
}
void bootstrap();
`;

const events: Readonly<Record<string, number>> = {
  'OrderService.prototype.create': 1,
  'OrderService.prototype.keep': 1,
  'OrderController.prototype.create': 1,
  'OrderController.prototype.get': 1,
  'order.found': 1,
  bootstrap: 1,
};

function make(application: string): string {
  const folder = freshFolder(application, 'nest');
  const configuration = (file: string) => {
    const targets = Object.keys(events)
      .filter((path) => path !== 'order.found')
      .map((path) => ({ module: file, function: path, eventType: path }));
    return JSON.stringify({ svc: { broker: { client: 'file', topic: 'nest' }, targets } });
  };
  writeFiles(folder, {
    'src/main.ts': main,
    'package.json': '{ "type": "commonjs" }',
    'source.json': configuration('./src/main.ts'),
    'output.json': configuration('./dist/main.js'),
    'tsconfig.json': JSON.stringify({
      compilerOptions: {
        target: 'es2022',
        module: 'commonjs',
        moduleResolution: 'node10',
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
        esModuleInterop: true,
        skipLibCheck: true,
        types: [],
        lib: ['es2023', 'dom'],
        outDir: 'dist',
      },
      include: ['src'],
    }),
  });
  const tsc = [`${application}/node_modules/typescript/bin/tsc`, '-p', '.'];
  execFileSync(process.execPath, tsc, { cwd: folder, timeout: 120_000, stdio: 'inherit' });
  return folder;
}

if (isMatrix) {
  describe(`${nest.title} [${nest.id}]`, function suite() {
    this.timeout(300_000);
    let folder: string;
    let without: Run;

    const run = (config: string, args: readonly string[]) =>
      runApp({ node, cwd: folder, args, env: { SVC_CONFIG: config } });

    before(async () => {
      folder = make(installPacked(`nest-otel-${otel}`, { ...otelPackages[otel].api, ...packages }));
      without = await run('output.json', ['dist/main.js']);
      assert.equal(without.code, 0, without.stderr);
    });

    const ways: Readonly<Record<string, [config: string, args: readonly string[]]>> = {
      'output of tsc, --import': ['output.json', ['--import', 'svc/register', 'dist/main.js']],
      'output of tsc, --require': ['output.json', ['--require', 'svc/register', 'dist/main.js']],
    };
    for (const [way, [config, args]] of Object.entries(ways)) {
      it(way, async () => {
        const under = await run(config, args);
        assert.equal(under.code, 0, under.stderr);
        assert.deepEqual(JSON.parse(under.stdout), JSON.parse(without.stdout));
        assert.deepEqual(
          JSON.parse(under.stdout).answers.map(([status]: [number]) => status),
          [403, 201, 200, 400, 404],
        );
        const counts: Record<string, number> = {};
        for (const { value } of under.events) counts[value.eventType] = (counts[value.eventType] ?? 0) + 1;
        assert.deepEqual(counts, events, under.stderr);
      });
    }
  });
}
