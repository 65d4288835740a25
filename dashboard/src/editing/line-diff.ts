import { diffArrays } from 'diff';

export interface DiffLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
  /** From 1, in the text before and after. */
  before: number | undefined;
  after: number | undefined;
}

/** So many differing lines are looked for; texts with more are shown as one replaced by the other. */
const differencesMax = 1_500;

/** Lines of two texts, in the shortest edit from one to the other. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  const changes = diffArrays(a, b, { maxEditLength: differencesMax }) ?? [
    { value: a, removed: true, added: false },
    { value: b, removed: false, added: true },
  ];
  let [x, y] = [0, 0];
  return changes.flatMap(({ value, added, removed }) =>
    value.map((text): DiffLine => {
      if (!added) x += 1;
      if (!removed) y += 1;
      return {
        kind: added ? 'added' : removed ? 'removed' : 'same',
        text,
        before: added ? undefined : x,
        after: removed ? undefined : y,
      };
    }),
  );
}

/** Only the lines that differ, with some around them; undefined marks lines left out. */
export function hunksOf(lines: readonly DiffLine[], around = 3): (DiffLine | undefined)[] {
  const near = lines.map((_line, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'),
  );
  const shown: (DiffLine | undefined)[] = [];
  for (const [index, line] of lines.entries()) {
    if (near[index] === true) shown.push(line);
    else if (near[index - 1] === true || index === 0) shown.push(undefined);
  }
  return shown;
}
