import type { Command } from 'commander';
import type { Parameters } from './api.ts';
import {
  addHealth,
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import type { Session } from './session.ts';
import { type ShownColumn, showList } from './show.ts';

export interface HealthyThings<Item> {
  path: (session: Session) => string;
  /** Query parameters in addition to those of every list. */
  query?: (session: Session, options: CommandOptions) => Parameters;
  columns: readonly ShownColumn<Item>[];
  /** What to do when there are none. */
  empty: string;
}

/** `list` of objects with health: with a limit, and optionally only those in one state. */
export function healthList<Item extends object>(
  parent: Command,
  summary: string,
  sessionOptions: GetSessionOptions,
  { path, query, columns, empty }: HealthyThings<Item>,
): Command {
  const list = async (session: Session, options: CommandOptions): Promise<void> => {
    const health = textOption(options, 'health');
    const items = await (await session.api()).list<Item>(path(session), limitOf(options), {
      health,
      ...query?.(session, options),
    });
    showList(session, items, columns, health === undefined ? empty : `None of them is ${health}.`);
  };
  return addHealth(addLimit(leaf(parent, 'list', summary, sessionOptions, list)));
}
