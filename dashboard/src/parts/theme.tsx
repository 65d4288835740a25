import { useState } from 'react';
import { Icon, type IconName } from './icon.tsx';
import { remember, remembered } from './remember.ts';

const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const icons: Record<Theme, IconName> = { system: 'auto', light: 'sun', dark: 'moon' };

/** Goes round: as the system, light, dark. public/theme.js applies the choice before the first paint. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(
    () => themes.find((name) => name === remembered('theme')) ?? 'system',
  );
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'system';
  const change = () => {
    if (next === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    remember('theme', next === 'system' ? undefined : next);
    setTheme(next);
  };
  return (
    <button
      type="button"
      className="button quiet small"
      onClick={change}
      title={`Theme: ${theme}. Change to ${next}`}
    >
      <Icon name={icons[theme]} size={16} />
      Theme: {theme}
    </button>
  );
}
