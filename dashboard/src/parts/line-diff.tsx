import { useMemo, useState } from 'react';
import { type DiffLine, diffLines, hunksOf } from '~/editing/line-diff.ts';
import { shortened, visible } from './plain-text.ts';

/** Maximum lines that are shown at first. */
const linesMax = 400;
const lineLength = 2_000;
const signs = { same: ' ', removed: '−', added: '+' } as const;
const words = { same: '', removed: 'removed: ', added: 'added: ' } as const;

/** Shows the lines in which two texts differ, with the old and the new line number. */
export function LineDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => {
    // A missing text has no lines. It is not the same as one empty line.
    const all = diffLines(before, after).filter(
      ({ kind, text }) => text !== '' || kind === 'same' || (kind === 'removed' ? before : after) !== '',
    );
    return hunksOf(all);
  }, [before, after]);
  const [all, setAll] = useState(false);
  const shown = all ? lines : lines.slice(0, linesMax);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable. */}
      <section className="line-diff" aria-label={label} tabIndex={0}>
        {shown.map((line, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines of a difference stay where they are.
          <Line key={index} line={line} />
        ))}
      </section>
      {shown.length < lines.length && (
        <button type="button" className="link" onClick={() => setAll(true)}>
          {lines.length - shown.length} more lines
        </button>
      )}
    </>
  );
}

function Line({ line }: { line: DiffLine | undefined }) {
  if (line === undefined) return <div className="diff-gap">…</div>;
  const { kind, text, before, after } = line;
  return (
    <div className={`diff-line ${kind}`}>
      <span className="diff-number" aria-hidden="true">
        {before}
      </span>
      <span className="diff-number" aria-hidden="true">
        {after}
      </span>
      <span className="diff-sign" aria-hidden="true">
        {signs[kind]}
      </span>
      <code>
        <span className="off-screen">{words[kind]}</span>
        {visible(shortened(text, lineLength))}
      </code>
    </div>
  );
}
