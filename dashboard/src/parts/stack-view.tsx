import { visible } from './plain-text.ts';

/** A place in the code of the component itself, as the service maps it. */
const own = /\(?(?:[\w./-]*\/)?component\.[cm]?[jt]s:(\d+):(\d+)\)?$/;
const linesAround = 2;
const framesMax = 30;

/** Where it failed: the lines of the component's own code first, with their source text. */
export function StackView({
  stack,
  message,
  code,
}: {
  stack: string;
  message: string;
  code: string | undefined;
}) {
  const frames = stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
    .slice(0, framesMax);
  const first = frames.map((frame) => own.exec(frame)).find((place) => place !== null);
  const rest = stack
    .split('\n')
    .filter((line) => !line.trim().startsWith('at ') && !message.includes(line.trim()));
  return (
    <div className="stack">
      {rest.length > 0 && <pre className="muted">{visible(rest.join('\n'))}</pre>}
      {first !== undefined && first !== null && code !== undefined && (
        <Excerpt code={code} line={Number(first[1])} column={Number(first[2])} />
      )}
      <ol className="frames">
        {frames.map((frame, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a stack never changes its order, and has the same line twice.
          <li key={index} className={own.test(frame) ? 'own' : 'muted'}>
            {visible(frame)}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Excerpt({ code, line, column }: { code: string; line: number; column: number }) {
  const lines = code.split('\n');
  if (lines[line - 1] === undefined) return null;
  const from = Math.max(1, line - linesAround);
  const shown = lines.slice(from - 1, line + linesAround);
  return (
    <figure className="excerpt">
      <figcaption>
        Line {line}, column {column} of the component
      </figcaption>
      <pre>
        {shown.map((text, index) => {
          const number = from + index;
          return (
            <div key={number} className={number === line ? 'excerpt-line here' : 'excerpt-line'}>
              <span className="excerpt-number" aria-hidden="true">
                {number}
              </span>
              {visible(text.slice(0, 300))}
            </div>
          );
        })}
      </pre>
    </figure>
  );
}
