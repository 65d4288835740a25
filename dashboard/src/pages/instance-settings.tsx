import { useState } from 'react';
import type { Setting } from '#sdk';
import { Icon } from '~/parts/icon.tsx';
import { visible } from '~/parts/plain-text.ts';

const originWords = { environment: 'set', file: 'set by a file', default: 'default' } as const;

/** Every setting with its value. They are read at the start of the service, so nothing is changed here. */
export function InstanceSettings({ settings }: { settings: readonly Setting[] }) {
  const [words, setWords] = useState('');
  const [onlySet, setOnlySet] = useState(false);
  const sought = words.trim().toLowerCase();
  const shown = settings.filter(
    ({ env, text, from }) =>
      (!onlySet || from !== 'default') && `${env} ${text}`.toLowerCase().includes(sought),
  );
  return (
    <>
      <p className="muted">
        Settings are variables of the environment that the service is started with, or files that these name:
        change them there, and start it again. Keys and passwords are never shown.
      </p>
      <div className="tools">
        <div className="search grow">
          <Icon name="search" />
          <input
            className="input"
            type="search"
            aria-label="Search settings"
            placeholder="Search settings"
            value={words}
            onChange={(event) => setWords(event.target.value)}
          />
        </div>
        <label className="pick">
          <input type="checkbox" checked={onlySet} onChange={(event) => setOnlySet(event.target.checked)} />
          <span>only those that were set</span>
        </label>
      </div>
      {shown.length === 0 ? (
        <p>No setting fits.</p>
      ) : (
        <ul className="rows card flush" aria-label="Settings">
          {shown.map((setting) => (
            <li key={setting.env} className="setting">
              <div className="setting-head">
                <code className="break">{setting.env}</code>
                <span className={setting.from === 'default' ? 'state off' : 'state busy'}>
                  {originWords[setting.from]}
                </span>
              </div>
              <p className="break">
                <Value setting={setting} />
              </p>
              <p className="muted break">{visible(setting.text)}</p>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Value({ setting: { value, amount } }: { setting: Setting }) {
  if (value === null) return <em>is set, and not shown</em>;
  if (value === '') return <span className="muted">empty</span>;
  if (amount === null) return <code>{visible(value)}</code>;
  return (
    <>
      {amount} <code className="muted">{visible(value)}</code>
    </>
  );
}
