import type { ReactNode } from 'react';
import type { ImportedWorkflow } from '#sdk';
import { formatNumber } from './format.ts';
import { shortened, visible } from './plain-text.ts';

const changeNames: Readonly<Record<ImportedWorkflow['changes'][number]['what'], string>> = {
  added: 'Added',
  removed: 'Removed',
  changed: 'Changed',
};

/** How a workflow or source that is imported differs from the one that is here. */
export function ImportChanges({
  changes,
  changes_left_out: leftOut,
  of,
}: Pick<ImportedWorkflow, 'changes' | 'changes_left_out'> & {
  /** What they are about. */
  of: ReactNode;
}) {
  const count = changes.length + leftOut;
  if (count === 0) return null;
  return (
    <details>
      <summary>
        {count === 1 ? '1 difference' : `${formatNumber(count)} differences`}
        <span className="off-screen"> of {of}</span>
      </summary>
      <ul className="findings">
        {changes.map(({ path, what, old, new: wanted, lines }) => (
          <li key={path}>
            <p className="break">
              {changeNames[what]} <code>{visible(shortened(path, 300))}</code>
              {old !== null && <> from “{visible(old)}”</>}
              {wanted !== null && (
                <>
                  {' '}
                  {old === null ? ':' : 'to'} “{visible(wanted)}”
                </>
              )}
            </p>
            {lines.length > 0 && (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable.
              <pre className="code-text" tabIndex={0}>
                {lines.map(visible).join('\n')}
              </pre>
            )}
          </li>
        ))}
        {leftOut > 0 && <li>and {formatNumber(leftOut)} more</li>}
      </ul>
    </details>
  );
}
