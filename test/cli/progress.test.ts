import assert from 'node:assert/strict';
import { createProgress } from '../../src/cli/terminal.ts';

function shown(
  columns: number | undefined,
  work: (progress: ReturnType<typeof createProgress>, pass: (ms: number) => void) => void,
  isTTY = true,
): string {
  let [nowMs, written] = [0, ''];
  const stream = {
    isTTY,
    ...(columns !== undefined && { columns }),
    write: (text: string) => (written += text),
  };
  const progress = createProgress(stream, () => nowMs);
  work(progress, (ms) => {
    nowMs += ms;
  });
  return written;
}

describe('the progress of a long command', () => {
  it('says how many, how fast, and for how long yet', () => {
    const text = shown(100, (progress, pass) => {
      pass(10_000);
      progress.show(500, 2_000, '3 failed');
      progress.end();
    });
    assert.equal(
      text,
      '\r[#####---------------] 25 %  500 of 2000 events  50/s  30 s left  3 failed\u001b[K\r\u001b[K',
    );
  });

  it('fits 40 columns, without a bar', () => {
    const text = shown(40, (progress, pass) => {
      pass(60_000);
      progress.show(123_456, 9_000_000, 'something long');
    });
    const line = text.slice(1, text.indexOf('\u001b'));
    assert.ok(line.length < 40, line);
    assert.match(line, /^123456 of 9000000 events {2}2058\/s/);
  });

  it('has neither a rate nor an end that it does not know', () => {
    assert.equal(
      shown(80, (progress) => progress.show(1, undefined)),
      '\r1 event\u001b[K',
    );
    const text = shown(undefined, (progress, pass) => {
      pass(2_000);
      progress.show(3, 3);
    });
    assert.ok(text.includes('100 %  3 of 3 events  1.5/s\u001b'), text);
  });

  it('writes ten times a second at most, and the last of all', () => {
    const text = shown(80, (progress, pass) => {
      for (let count = 1; count <= 100; count++) {
        pass(10);
        progress.show(count, 100);
      }
    });
    assert.equal(text.split('\r').length - 1, 11);
    assert.match(text, /100 of 100 events[^\r]*$/);
  });

  it('is silent without a terminal', () => {
    const text = shown(
      undefined,
      (progress) => {
        progress.show(1, 1);
        progress.end();
      },
      false,
    );
    assert.equal(text, '');
  });
});
