import { useState } from 'react';
import { visible } from './plain-text.ts';

/** The number of entries of an array or object shown at first, and added by each "more". */
const childrenStep = 100;
/** The number of characters of a text shown at first, and added by each "more". */
const textStep = 2_000;
/** Levels that are open at first. */
const openLevels = 2;

/** Any JSON, as a tree that is opened and closed. All of it is text: nothing in it is followed, loaded or run. */
export function JsonView({ value, label = 'JSON' }: { value: unknown; label?: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable.
    <section className="json" aria-label={label} tabIndex={0}>
      <Node value={value} level={0} last />
    </section>
  );
}

function Node({ name, value, level, last }: { name?: string; value: unknown; level: number; last: boolean }) {
  const key =
    name === undefined ? null : (
      <>
        <span className="json-key">{visible(JSON.stringify(name))}</span>
        {': '}
      </>
    );
  const comma = last ? '' : ',';
  if (typeof value === 'object' && value !== null) {
    return <Branch keyPart={key} value={value} level={level} comma={comma} />;
  }
  return (
    <div className="json-line">
      {key}
      <Leaf value={value} />
      {comma}
    </div>
  );
}

function Branch({
  keyPart,
  value,
  level,
  comma,
}: {
  keyPart: React.ReactNode;
  value: object;
  level: number;
  comma: string;
}) {
  const isArray = Array.isArray(value);
  const entries: [string | undefined, unknown][] = isArray
    ? (value as unknown[]).map((item) => [undefined, item])
    : Object.entries(value);
  const [open, setOpen] = useState(level < openLevels && entries.length <= childrenStep);
  const [shown, setShown] = useState(childrenStep);
  const [start, end] = isArray ? ['[', ']'] : ['{', '}'];
  if (entries.length === 0) {
    return (
      <div className="json-line">
        {keyPart}
        {start}
        {end}
        {comma}
      </div>
    );
  }
  return (
    <div>
      <div className="json-line">
        <button type="button" className="json-toggle" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span className={open ? 'twist open' : 'twist'} aria-hidden="true">
            ▸
          </span>
          <span>
            {keyPart}
            {start}
            {!open && (
              <span className="json-count">
                {' '}
                {entries.length} {isArray ? 'items' : 'fields'}{' '}
              </span>
            )}
            {!open && end + comma}
          </span>
        </button>
      </div>
      {open && (
        <>
          <div className="json-children">
            {entries.slice(0, shown).map(([name, item], index) => (
              <Node
                // biome-ignore lint/suspicious/noArrayIndexKey: what is shown never changes its order.
                key={index}
                {...(name === undefined ? {} : { name })}
                value={item}
                level={level + 1}
                last={index === entries.length - 1}
              />
            ))}
            {shown < entries.length && (
              <button type="button" className="link" onClick={() => setShown(shown + childrenStep)}>
                {entries.length - shown} more
              </button>
            )}
          </div>
          <div className="json-line">
            {end}
            {comma}
          </div>
        </>
      )}
    </div>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [shown, setShown] = useState(textStep);
  if (typeof value !== 'string') {
    return <span className={value === null ? 'json-null' : 'json-number'}>{String(value)}</span>;
  }
  return (
    <span className="json-string">
      <bdi>
        {visible(JSON.stringify(value.slice(0, shown)).slice(0, value.length > shown ? -1 : undefined))}
      </bdi>
      {value.length > shown && (
        <button type="button" className="link" onClick={() => setShown(shown + 20 * textStep)}>
          … {value.length - shown} more characters
        </button>
      )}
    </span>
  );
}
