import { Link } from 'wouter';
import type { ComponentSummary } from '#sdk';
import { plainWords } from './marks.ts';
import { oneLine, shortened, visible } from './plain-text.ts';

/** A component of the registry in a list, leading to its page. */
export function ComponentLink({ component }: { component: ComponentSummary }) {
  const { key, name, version, description, type } = component;
  return (
    <Link href={`/registry/${encodeURIComponent(key)}`} className="choice-row">
      <strong>
        <bdi>{visible(shortened(name, 100))}</bdi>
      </strong>{' '}
      <span className="muted">
        {type} {visible(shortened(version, 40))}
      </span>
      <span className="choice-text">{oneLine(plainWords(description), 200)}</span>
      <code className="muted">{visible(shortened(key, 100))}</code>
    </Link>
  );
}
