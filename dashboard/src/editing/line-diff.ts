export interface DiffLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
  /** From 1, in the text before and after. */
  before: number | undefined;
  after: number | undefined;
}

/** So many differing lines are looked for; texts with more are shown as one replaced by the other. */
const differencesMax = 1_500;

/** Lines of two texts, in the shortest edit that leads from one to the other (Myers, 1986). */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const kinds: DiffLine['kind'][] = [
    ...Array<DiffLine['kind']>(start).fill('same'),
    ...edit(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...Array<DiffLine['kind']>(end).fill('same'),
  ];
  let [x, y] = [0, 0];
  return kinds.map((kind) => {
    if (kind !== 'added') x += 1;
    if (kind !== 'removed') y += 1;
    return {
      kind,
      text: (kind === 'added' ? b[y - 1] : a[x - 1]) ?? '',
      before: kind === 'added' ? undefined : x,
      after: kind === 'removed' ? undefined : y,
    };
  });
}

function edit(a: readonly string[], b: readonly string[]): DiffLine['kind'][] {
  const replaced: DiffLine['kind'][] = [
    ...Array<DiffLine['kind']>(a.length).fill('removed'),
    ...Array<DiffLine['kind']>(b.length).fill('added'),
  ];
  if (a.length === 0 || b.length === 0) return replaced;
  const max = Math.min(a.length + b.length, differencesMax);
  // The furthest line of `a` reached on each diagonal, and what it was before each round, to find the way back.
  const furthest = new Map<number, number>([[1, 0]]);
  const rounds: Map<number, number>[] = [];
  for (let depth = 0; depth <= max; depth += 1) {
    rounds.push(new Map(furthest));
    for (let diagonal = -depth; diagonal <= depth; diagonal += 2) {
      const [left, right] = [furthest.get(diagonal - 1) ?? -1, furthest.get(diagonal + 1) ?? -1];
      let x = diagonal === -depth || (diagonal !== depth && left < right) ? right : left + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      furthest.set(diagonal, x);
      if (x >= a.length && y >= b.length) return wayBack(rounds, a.length, b.length);
    }
  }
  return replaced;
}

function wayBack(rounds: readonly Map<number, number>[], fromX: number, fromY: number): DiffLine['kind'][] {
  const kinds: DiffLine['kind'][] = [];
  let [x, y] = [fromX, fromY];
  for (let depth = rounds.length - 1; depth >= 0; depth -= 1) {
    const furthest = rounds[depth] ?? new Map<number, number>();
    const diagonal = x - y;
    const [left, right] = [furthest.get(diagonal - 1) ?? -1, furthest.get(diagonal + 1) ?? -1];
    const isDown = diagonal === -depth || (diagonal !== depth && left < right);
    const fromDiagonal = isDown ? diagonal + 1 : diagonal - 1;
    const startX = furthest.get(fromDiagonal) ?? 0;
    const startY = startX - fromDiagonal;
    while (x > startX && y > startY) {
      kinds.push('same');
      x -= 1;
      y -= 1;
    }
    if (depth > 0) kinds.push(isDown ? 'added' : 'removed');
    [x, y] = [startX, startY];
  }
  return kinds.reverse();
}

/** Only the lines that differ, with some around them; undefined stands for lines left out. */
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
