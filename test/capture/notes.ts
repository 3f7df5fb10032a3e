import assert from 'node:assert/strict';
import { notesAbout } from '../../src/capture/report.ts';
import { shared } from '../../src/ground/lifecycle.ts';

/** Remarks of earlier tests would stand in the report as well. */
export function forgetNotes(): void {
  shared<Map<string, unknown>>('capture-notes', () =>
    assert.fail('src/capture/report.ts keeps its notes under another name'),
  ).clear();
}

/** The report says of both targets that the first has priority, and nothing else. */
export function assertPrecedes(winner: string, loser: string): void {
  const notes = notesAbout(loser);
  assert.deepEqual(notesAbout(winner), notes);
  assert.deepEqual(
    notes.map((note) => note.replace(/^.+: /, '')),
    [`${winner} before ${loser}`],
  );
}
