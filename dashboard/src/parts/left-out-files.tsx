import type { RegistryPackage } from '#sdk';
import { shortened, visible } from './plain-text.ts';

type Problems = RegistryPackage['problems'];

/** Among the facts about a package or repository: how many of its files cannot be used. */
export function LeftOutCount({ problems }: { problems: Problems }) {
  if (problems.length === 0) return null;
  return (
    <span className="state bad">
      {problems.length} {problems.length === 1 ? 'file' : 'files'} left out
    </span>
  );
}

/** Below the facts: which files, and why. */
export function LeftOutFiles({ problems }: { problems: Problems }) {
  if (problems.length === 0) return null;
  return (
    <details>
      <summary>Files that were left out, and why</summary>
      <ul className="plain-list">
        {problems.map(({ path, message }) => (
          <li key={path}>
            <code>{visible(shortened(path, 300))}</code>
            <p className="muted">{visible(shortened(message, 500))}</p>
          </li>
        ))}
      </ul>
    </details>
  );
}
