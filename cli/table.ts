import { cut, visible, widthOf } from './visible-text.ts';

export interface Column {
  title: string;
  /** Ids are to be copied: never cut. */
  isWhole?: boolean;
}

const gap = '  ';
/** A column is not made narrower than this, however many there are. */
const columnMin = 8;

/**
 * Lines of a table, the titles first, at most `width` columns wide: long cells are cut, and where ids leave no room the last columns
 * are left out. Cells may hold anything: what a terminal would obey is escaped.
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): string[] {
  const cells = rows.map((row) => row.map((cell) => visible(cell)));
  const widths = columns.map(({ title }, at) =>
    Math.max(widthOf(title), ...cells.map((row) => widthOf(row[at] ?? ''))),
  );
  narrow(columns, widths, width);
  // The most important columns come first.
  if (columns.length > 2 && total(widths) > width) {
    const last = columns.length - 1;
    return tableLines(
      columns.slice(0, last),
      rows.map((row) => row.slice(0, last)),
      width,
    );
  }
  const line = (row: readonly string[]): string =>
    columns
      .map((_column, at) => {
        const shown = cut(row[at] ?? '', widths[at] ?? 0);
        return shown + ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(shown)));
      })
      .join(gap)
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...cells.map(line)];
}

/** Takes from the widest column that may be cut until the line fits. */
function narrow(columns: readonly Column[], widths: number[], width: number): void {
  while (total(widths) > width) {
    let widest = -1;
    for (const [at, column] of columns.entries()) {
      if (column.isWhole === true || (widths[at] ?? 0) <= columnMin) continue;
      if (widest === -1 || (widths[at] ?? 0) > (widths[widest] ?? 0)) widest = at;
    }
    if (widest === -1) return;
    const others = columns
      .map((column, at) => (at === widest || column.isWhole === true ? 0 : (widths[at] ?? 0)))
      .reduce((most, one) => Math.max(most, one), columnMin);
    const current = widths[widest] ?? 0;
    // Down to the next widest at once: names of 10,000 characters are not worth 10,000 rounds.
    const target = Math.max(
      columnMin,
      Math.min(current - 1, Math.max(others, current - (total(widths) - width))),
    );
    widths[widest] = target;
  }
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one, 0) + gap.length * (widths.length - 1);
}
