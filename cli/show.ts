import type { Health } from '#sdk';
import { amountText } from './amounts.ts';
import { withOwnerNames } from './owner-names.ts';
import type { Session } from './session.ts';
import type { Column } from './table.ts';
import { visibleJson } from './visible-text.ts';

/** A column of a listing: its title, and its text for an item. */
export interface ShownColumn<Item> extends Column {
  of: (item: Item) => unknown;
}

export function column<Item extends object>(
  title: string,
  of: (keyof Item & string) | ((item: Item) => unknown),
  options: { isWhole?: boolean } = {},
): ShownColumn<Item> {
  return { title, of: typeof of === 'string' ? (item) => item[of] : of, ...options };
}

export function idColumn(title = 'ID'): ShownColumn<{ id: string }> {
  return column(title, 'id', { isWhole: true });
}

/** The health of a source, workflow, webhook or account, in one word. */
export function healthColumn(): ShownColumn<{ health: Health }> {
  return column('HEALTH', ({ health }) => health.state);
}

/** Why it is in a state that needs attention. */
export function reasonColumn(): ShownColumn<{ health: Health }> {
  return column('REASON', ({ health: { state, reason } }) =>
    state === 'failing' || state === 'waiting' || state === 'disabled' ? reason : null,
  );
}

/** State, since when and why, on one line. */
function healthText({ state, reason, since, failures }: Health): string {
  return [
    reason === null ? state : `${state}: ${reason}`,
    ...(since === null ? [] : [`since ${timeText(since)} UTC`]),
    ...(failures > 1 ? [`${failures} failures`] : []),
  ].join(', ');
}

/** A list: as a table, or the array of the API. */
export function showList<Item extends object>(
  session: Session,
  items: readonly Item[],
  columns: readonly ShownColumn<Item>[],
  empty: string,
): void {
  if (session.isJson) {
    session.terminal.printJson(items);
    return;
  }
  if (items.length === 0) {
    session.terminal.note(empty);
    return;
  }
  session.terminal.printTable(
    columns,
    items.map((item) => columns.map(({ of }) => cellText(of(item)))),
  );
}

/** One object: its fields below each other, with names of users and workspaces; or the object of the API. */
export async function showOne(session: Session, item: object): Promise<void> {
  if (session.isJson) {
    session.terminal.printJson(item);
    return;
  }
  const [shown = item] = await withOwnerNames(session, [item]);
  session.terminal.printFields(
    Object.entries(shown).map(([name, value]) => [
      name,
      name === 'health' ? healthText(value as Health) : readable(name, value),
    ]),
  );
}

/** The result of a command: a sentence for users; `data` for programs, `{}` where the API answers nothing. */
export function showDone(session: Session, sentence: string, data: unknown = {}): void {
  if (session.isJson) session.terminal.printJson(data);
  else session.terminal.note(sentence);
}

/** Epoch seconds, as the API has them in records. */
export function timeText(seconds: unknown): string {
  if (typeof seconds === 'string') return seconds.replace('T', ' ').replace(/\.\d+Z$|Z$/, '');
  if (typeof seconds !== 'number') return '-';
  return millisText(seconds * 1000);
}

export function millisText(ms: unknown): string {
  if (typeof ms !== 'number' || Math.abs(ms) > 8.64e15) return '-';
  return new Date(ms)
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, '');
}

export function timeColumn<Item extends object>(
  title: string,
  field: keyof Item & string,
): ShownColumn<Item> {
  return column(title, (item) => timeText(item[field]), { isWhole: true });
}

function cellText(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return typeof value === 'number' ? String(value) : visibleJson(value, 0);
}

/** Times and amounts in readable form. */
export function readable(name: string, value: unknown): unknown {
  const amount = typeof value === 'number' ? amountText(name, value) : undefined;
  if (amount !== undefined) return amount;
  return typeof value === 'number' && /_at$/.test(name) ? `${value} (${timeText(value)} UTC)` : value;
}
