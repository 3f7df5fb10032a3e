import { recoveryGroup } from '../start/tiers/dlq-waiting.ts';
import { runRecoveryCommand } from './recovery-command.ts';
import { parseRecoveryOptions, WrongUse } from './recovery-options.ts';

/** `svc dlq list|recover`: dead letters, and their way back to the topics that the events were meant for. */
export async function runDlq([command, ...args]: readonly string[]): Promise<number> {
  if (command !== 'list' && command !== 'recover') throw new WrongUse('svc dlq takes list or recover');
  const options = parseRecoveryOptions(args, ['dlq-topic', 'group']);
  return runRecoveryCommand(options, command === 'list' ? 'list' : 'send', ({ broker }) => {
    const topic = options.own['dlq-topic'] ?? broker.dlqTopic;
    if (topic === undefined)
      throw new WrongUse('no dead letter topic: set svc.broker.dlq-topic, or give --dlq-topic');
    return { kind: 'dlq', topic, group: options.own.group ?? recoveryGroup };
  });
}
