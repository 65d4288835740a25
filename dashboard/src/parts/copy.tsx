import { useEffect, useState } from 'react';
import { Icon } from './icon.tsx';

const shownMs = 2_000;

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  useEffect(() => {
    if (state === 'idle') return;
    const timer = setTimeout(() => setState('idle'), shownMs);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await writeClipboard(text)) ? 'copied' : 'failed');
  return (
    <button
      type="button"
      className="button quiet small"
      onClick={() => void copy()}
      aria-label={label}
      title={label}
    >
      <Icon name={state === 'copied' ? 'check' : 'copy'} size={16} />
      <span aria-live="polite">
        {state === 'copied' ? 'Copied' : state === 'failed' ? 'Select it' : 'Copy'}
      </span>
    </button>
  );
}

/** Browsers have the clipboard only under https and on localhost: elsewhere the old way has to do. */
async function writeClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/** A command, or another text to copy. */
export function Command({ text, label }: { text: string; label?: string }) {
  return (
    <div className="command">
      {/* Keyboard users scroll it. */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable. */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label ?? 'Copy the command'} />
    </div>
  );
}
