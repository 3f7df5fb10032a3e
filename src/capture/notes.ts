import { shared } from '../ground/lifecycle.ts';

/** What a reader of the capture report should know about two targets that met, or about results that cannot be watched. */
export interface CaptureNote {
  /** The id of the target that goes on. */
  readonly winner: string;
  /** The id of the target that makes no events; `null` where there is only one. */
  readonly loser: string | null;
  readonly reason: string;
}

const notes = shared<Map<string, CaptureNote>>('capture-notes', () => new Map());

/** Keeps a note once. */
export function addNote(note: CaptureNote): void {
  const key = `${note.winner}\n${note.loser}\n${note.reason}`;
  if (!notes.has(key)) notes.set(key, note);
}

/** All notes of this process so far, oldest first. */
export function captureNotes(): readonly CaptureNote[] {
  return [...notes.values()];
}

export function clearCaptureNotes(): void {
  notes.clear();
}
