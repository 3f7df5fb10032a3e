import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { startKafkaCluster } from '../../../scripts/services/kafka-cluster.ts';
import { startOwnKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { accountOf } from './account.ts';
import { Fleet, lastLine, type Member, workersSince } from './fleet.ts';

interface Brokers {
  readonly brokers: readonly string[];
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** `SVC_FLEET=60` for the whole measure: on three nodes, and with two million ids. */
const size = Number(process.env.SVC_FLEET ?? 9);
const isWhole = size >= 40;
const third = Math.floor(size / 3);
/** Longer than a lease. */
const stoppedMs = 17_000;

requiring('own-kafka', `worker ids of ${size} processes, through Kafka`, function () {
  this.timeout(isWhole ? 1_200_000 : 240_000);
  let kafka: Brokers;
  let fleet: Fleet;

  before(async () => {
    kafka = isWhole ? await startCluster() : await startOne();
    fleet = new Fleet({
      ...{ brokers: kafka.brokers, group: `svc-workers-${randomUUID()}` },
      idsPerSecond: isWhole ? 300 : 1_000,
    });
  });
  after(async () => {
    await fleet?.remove();
    await kafka?.stop();
  });

  const log = (line: string): void => {
    if (isWhole) console.log(`      ${line}`);
  };

  it('each gets one of its own within 15 s, keeps it while others come, go and die, and no id is made twice', async () => {
    const first = await fleet.startMany(size);
    const tookMs = await fleet.allLeased(first, 60_000);
    log(`${size} different ids ${Math.round(tookMs)} ms after the last process was up`);

    // A third dies and comes again while others join: those who live keep what they have.
    const stopped = first[size - 1] as Member;
    const [dying, staying] = [first.slice(0, third), first.slice(third, size - 1)];
    const since = lastLine(stopped)?.id ?? '';
    stopped.child.kill('SIGSTOP');
    const stopEndsAt = performance.now() + stoppedMs;
    await fleet.end('SIGKILL', dying);
    const again = await fleet.startMany(third);
    for (let joined = 0; joined < 3; joined++) {
      fleet.start();
      await sleep(1_500);
    }
    log(`killed and started again: ${again.length}`);
    await sleep(Math.max(0, stopEndsAt - performance.now()));
    stopped.child.kill('SIGCONT');
    await fleet.allLeased(fleet.alive(), 60_000);
    for (const member of staying) assert.equal(workersSince(member, since).length, 1, member.log);
    assert.notEqual(workersSince(stopped, since)[0]?.split(' ')[0], 'kafka');

    // A deployment: one after the other leaves and a new one comes.
    const [leaving, others] = [staying.slice(0, third), staying.slice(third)];
    const before = lastLine(others[0] as Member)?.id ?? '';
    for (const member of leaving) {
      await fleet.end('SIGTERM', [member]);
      fleet.start();
    }
    await fleet.allLeased(fleet.alive(), 60_000);
    for (const member of others) assert.equal(workersSince(member, before).length, 1, member.log);
    log(`restarted one after the other: ${leaving.length}; the other ${others.length} kept their ids`);

    await kafka.restart();
    const backMs = await fleet.allLeased(fleet.alive(), 120_000);
    log(`after the restart of the brokers all have ids again within ${Math.round(backMs)} ms`);
    if (isWhole) await sleep(45_000);

    await fleet.end('SIGTERM', fleet.alive());
    const account = accountOf(fleet.members.map((member) => member.log));
    log(
      `${account.idCount} ids, ${account.handOvers} worker ids handed over, after ${account.shortestHandOverMs} ms at least`,
    );
    assert.deepEqual(account.equalIds, []);
    assert.deepEqual(account.fallen, []);
    assert.ok(account.handOvers > 0);
    assert.ok(account.shortestHandOverMs >= 1_000, `${account.shortestHandOverMs} ms`);
    assert.deepEqual(fleet.errors, []);
    assert.ok(tookMs <= 15_000, `${tookMs} ms until each had its own`);
    if (isWhole) assert.ok(account.idCount >= 2_000_000, `${account.idCount} ids`);
  });
});

async function startOne(): Promise<Brokers> {
  const kafka = await startOwnKafka();
  const restart = async (): Promise<void> => {
    await kafka.kill();
    await kafka.restart();
  };
  return { brokers: kafka.brokers, restart, stop: () => kafka.stop() };
}

async function startCluster(): Promise<Brokers> {
  const cluster = await startKafkaCluster();
  const restart = async (): Promise<void> => {
    for (const node of cluster.nodes) {
      await node.kill();
      node.launch();
      await node.ready();
    }
  };
  return { brokers: cluster.brokers, restart, stop: () => cluster.stop() };
}
